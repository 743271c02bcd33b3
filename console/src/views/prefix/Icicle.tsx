// The tree, drawn: one row per fork, as wide as what is held beneath. The tables beside it say the same in numbers.
import { hierarchy, partition, type HierarchyRectangularNode } from "d3-hierarchy";
import { useMemo } from "preact/hooks";
import type { Branch, PrefixTree } from "../../api/types";
import { int } from "../../format";
import { tier } from "./tier";

interface Node {
  branch: Branch | null;
  children: Node[];
  weight: number;
}

const WIDTH = 1000;
const ROW = 26;
const MOST_ROWS = 14;

interface Props {
  tree: PrefixTree;
  endpoint: number | null;
  chosen: string | null;
  choose: (id: string | null) => void;
}

export function Icicle({ tree, endpoint, chosen, choose }: Props) {
  const { nodes, rows } = useMemo(() => {
    const all: Node[] = tree.branches.map((branch) => ({ branch, children: [], weight: branch.blocks * branch.holders.length + branch.omitted_blocks }));
    const root: Node = { branch: null, children: [], weight: 0 };
    tree.branches.forEach((b, at) => (b.parent === null ? root : all[b.parent]!).children.push(all[at]!));
    const sized = hierarchy(root, (n) => n.children).sum((n) => n.weight);
    const deepest = Math.min(sized.height + 1, MOST_ROWS + 1);
    const laid: HierarchyRectangularNode<Node> = partition<Node>().size([WIDTH, (sized.height + 1) * ROW])(sized);
    return { nodes: laid.descendants().filter((n) => n.data.branch && n.depth <= MOST_ROWS && n.x1 - n.x0 > 0.5), rows: deepest - 1 };
  }, [tree]);
  return (
    <svg class="tree" viewBox={`0 0 ${WIDTH} ${Math.max(1, rows) * ROW}`} width="100%" preserveAspectRatio="none" style={{ height: `${Math.max(1, rows) * ROW}px` }} role="img" aria-label={`Tree of ${nodes.length} shared prefixes`}>
      {nodes.map((n) => {
        const b = n.data.branch!;
        const off = endpoint !== null && !b.holders.includes(endpoint);
        return (
          <rect key={b.id} x={n.x0} y={(n.depth - 1) * ROW} width={n.x1 - n.x0} height={ROW - 2} class={`${tier(b)}${off ? " off" : ""}${b.id === chosen ? " on" : ""}`} onClick={() => choose(b.id === chosen ? null : b.id)}>
            <title>{`${b.id}: ${int(b.blocks * tree.block_tokens)} tokens, ${int(b.prompts)} prompts, held by ${int(b.holders.length)}`}</title>
          </rect>
        );
      })}
    </svg>
  );
}
