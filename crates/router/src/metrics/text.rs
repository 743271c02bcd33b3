//! OpenMetrics text to the classic Prometheus text format, in which the dashboards' names were written: counters carry `_total` in their
//! `TYPE` and `HELP` lines too, and there is no end mark.

use std::collections::HashSet;

pub(super) fn classic(page: &str) -> String {
    let counters: HashSet<&str> =
        page.lines().filter_map(|l| l.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let mut out = String::with_capacity(page.len() + 16 * counters.len());
    for line in page.lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        let meta = ["# TYPE ", "# HELP "].iter().find_map(|p| Some((*p, line.strip_prefix(p)?)));
        match meta.and_then(|(prefix, rest)| Some((prefix, rest.split_once(' ')?))) {
            Some((prefix, (name, rest))) if counters.contains(name) => {
                out.extend([prefix, name, "_total ", rest]);
            }
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_carry_their_suffix_everywhere_and_the_end_mark_goes() {
        let page =
            "# HELP a Things.\n# TYPE a counter\na_total{x=\"1\"} 2\n# HELP b Level.\n# TYPE b gauge\nb 1\n# EOF\n";
        let want = "# HELP a_total Things.\n# TYPE a_total counter\na_total{x=\"1\"} 2\n# HELP b Level.\n# TYPE b gauge\nb 1\n";
        assert_eq!(classic(page), want);
    }
}
