// What other weights would have done with the last requests.
import type { Rescored } from "../../api/types";
import { clean, fixed, int, millis, percent } from "../../format";
import { Figure } from "../../parts/Figure";
import { Th } from "../../parts/Th";
import { address } from "../../router";

export function Report({ report }: { report: Rescored }) {
  return (
    <>
      <div class="figures">
        <Figure label="would go elsewhere" value={`${int(report.different)} of ${int(report.decisions)}`} />
        <Figure label="just as good" value={int(report.tied)} />
        <Figure label="the same" value={int(report.same)} />
        <Figure label="TTFT p95, as measured" value={millis(report.measured.ttft_p95_ms)} />
        <Figure label="cache hits, as measured" value={percent(report.measured.cache_hit_share, 1)} />
      </div>
      <p class="small quiet">
        From the records of the last {int(report.decisions)} decisions
        {report.unrated > 0 && `, ${int(report.unrated)} of which rated nobody`}
        {report.partial > 0 && `; of ${int(report.partial)} only the best candidates are on record`}. It says what these weights would have chosen then, not how a fleet would fare that they had been steering; a race tells that.
      </p>
      <Shares report={report} />
    </>
  );
}

function Shares({ report }: { report: Rescored }) {
  const rows = [...report.endpoints].sort((a, b) => b.would - a.would || b.chosen - a.chosen).slice(0, 30);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Requests by endpoint">
      <table>
        <thead>
          <tr>
            <Th>Endpoint</Th>
            <Th num>Went there</Th>
            <Th num>Would go there</Th>
          </tr>
        </thead>
        <tbody>
          {rows.map((e) => (
            <tr key={e.endpoint}>
              <th scope="row">{clean(e.endpoint, 60)}</th>
              <td class="num">{int(e.chosen)}</td>
              <td class="num">{int(e.would)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function Changes({ report }: { report: Rescored }) {
  return (
    <section class="panel">
      <h2>Which ones</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Changed decisions">
        <table id="changes">
          <caption>
            The newest {int(report.changes.length)} of {int(report.different)}.
          </caption>
          <thead>
            <tr>
              <Th>Decision</Th>
              <Th>Model</Th>
              <Th>Went to</Th>
              <Th>Would go to</Th>
              <Th num>By</Th>
            </tr>
          </thead>
          <tbody>
            {report.changes.map((c) => (
              <tr key={c.id}>
                <th scope="row">
                  <a class="mono" href={address("pipeline", c.id)}>
                    {c.id}
                  </a>
                </th>
                <td class="ellipsis">{clean(c.model, 60)}</td>
                <td>{clean(c.from, 60)}</td>
                <td>{clean(c.to, 60)}</td>
                <td class="num">{fixed(c.margin, 3)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

