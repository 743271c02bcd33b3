// uPlot, fitted into its box and drawn in the colours of the theme.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { theme } from "../theme";

export interface Series {
  label: string;
  colour: "--series-1" | "--series-2";
  dash?: number[];
  value?: (v: number) => string;
}

interface Props {
  data: number[][];
  series: Series[];
  label: string;
  logX?: boolean;
  logY?: boolean;
  xValue: (v: number) => string;
  yValue: (v: number) => string;
  xLabel: string;
  yLabel: string;
  /** Distances that ticks of x may have. */
  xSteps?: number[];
  /** How ticks of x are written, where that is not `xValue`. */
  xTick?: (v: number) => string;
}

const colour = (name: string) => {
  // A canvas does not know light-dark(); a real element does.
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
};

export function Plot(props: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const shape = `${props.series.map((s) => s.label).join()}|${props.logX}|${props.logY}|${theme.value}`;
  useEffect(() => {
    const at = box.current!;
    const [ink, grid] = [colour("--quiet"), colour("--line")];
    const axis = (label: string, values: (v: number) => string) => ({
      label,
      labelSize: 18,
      stroke: ink,
      grid: { stroke: grid, width: 1 },
      ticks: { stroke: grid },
      values: (_: uPlot, splits: number[]) => splits.map((v) => (v === null ? "" : values(v))),
    });
    const made = new uPlot(
      {
        width: at.clientWidth || 300,
        height: 240,
        padding: [8, 18, 0, 0],
        scales: { x: { time: false, distr: props.logX ? 3 : 1 }, y: { distr: props.logY ? 3 : 1 } },
        axes: [{ ...axis(props.xLabel, props.xTick ?? props.xValue), ...(props.xSteps && { incrs: props.xSteps }) }, { ...axis(props.yLabel, props.yValue), size: 68 }],
        series: [
          { label: props.xLabel, value: (_: uPlot, v: number | null) => (v === null ? "-" : props.xValue(v)) },
          ...props.series.map((s) => ({
            label: s.label,
            stroke: colour(s.colour),
            width: 2,
            dash: s.dash,
            points: { show: false },
            value: (_: uPlot, v: number | null) => (v === null ? "-" : props.yValue(v)),
          })),
        ],
      },
      props.data as uPlot.AlignedData,
      at,
    );
    plot.current = made;
    const sized = new ResizeObserver(() => made.setSize({ width: at.clientWidth, height: 240 }));
    sized.observe(at);
    return () => {
      sized.disconnect();
      made.destroy();
    };
  }, [shape]);
  useEffect(() => plot.current?.setData(props.data as uPlot.AlignedData), [props.data]);
  return <div class="plot" ref={box} role="img" aria-label={props.label} />;
}
