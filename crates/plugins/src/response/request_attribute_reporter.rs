//! `request-attribute-reporter`: a number computed from a request's token usage, for the proxy's dynamic metadata.
//!
//! `expression` and `condition` are CEL over `usage`: `prompt_tokens`, `completion_tokens`, `total_tokens`, and
//! `prompt_tokens_details.cached_tokens` where the engine tells it. A condition that is not true, or fails, reports
//! nothing. The result is cut to a whole number; 0, and what is no number, is not reported. CEL knows no arithmetic
//! between whole and fractional numbers, and usage figures are fractional ones: an expression that fails like that is
//! read once more with its whole literals as fractional ones, and then with whole usage figures, so that `2 *
//! usage.completion_tokens` means what it says. Source: plugin specification 10.5.

use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};
use cel::{Context, Env, Program, Value};
use pointsman_config::{Param, ParamKind, Params};
use pointsman_scheduling::{Attribute, TokenUsage, UsageHook};
use std::collections::HashMap;
use std::sync::Arc;

/// Where attributes go that name no namespace.
const NAMESPACE: &str = "envoy.lb";
/// Longest expression, bytes.
const LONGEST: usize = 4096;

/// An expression, with its whole literals made fractional beside.
struct Expression {
    as_written: IdedExpr,
    fractional: IdedExpr,
}

/// Usage figures as whole or as fractional numbers.
type Figure = fn(u64) -> Value;

fn whole(n: u64) -> Value {
    Value::Int(i64::try_from(n).unwrap_or(i64::MAX))
}

fn fraction(n: u64) -> Value {
    Value::Float(n as f64)
}

fn fields(usage: &TokenUsage, figure: Figure) -> HashMap<String, Value> {
    let mut fields = HashMap::from([
        ("prompt_tokens".to_owned(), figure(usage.prompt)),
        ("completion_tokens".to_owned(), figure(usage.completion)),
        ("total_tokens".to_owned(), figure(usage.total)),
    ]);
    if let Some(cached) = usage.cached {
        // The second spelling is that of the Go picker's own record.
        for name in ["prompt_tokens_details", "prompt_token_details"] {
            let details = HashMap::from([("cached_tokens".to_owned(), figure(cached))]);
            fields.insert(name.to_owned(), Value::Map(details.into()));
        }
    }
    fields
}

impl Expression {
    fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("is longer than {LONGEST} bytes"));
        }
        let program =
            Program::compile(text).map_err(|e| format!("is not CEL: {}", e.to_string().replace('\n', " ")))?;
        let as_written = program.expression().clone();
        let mut fractional = as_written.clone();
        make_fractional(&mut fractional);
        Ok(Self { as_written, fractional })
    }

    /// The first reading that has a value.
    fn value(&self, env: &Arc<Env>, usage: &TokenUsage) -> Result<Value, String> {
        let read = |expression: &IdedExpr, figure: Figure| {
            let mut context = Context::with_env(Arc::clone(env));
            context.add_variable_from_value("usage", Value::Map(fields(usage, figure).into()));
            Value::resolve(expression, &context)
        };
        read(&self.as_written, fraction)
            .or_else(|error| {
                read(&self.fractional, fraction).or_else(|_| read(&self.as_written, whole)).map_err(|_| error)
            })
            .map_err(|error| error.to_string())
    }
}

/// Makes whole literals fractional, but for those that count places in a list.
fn make_fractional(expression: &mut IdedExpr) {
    match &mut expression.expr {
        Expr::Literal(literal) => {
            let number = match literal {
                LiteralValue::Int(i) => *i.inner() as f64,
                LiteralValue::UInt(u) => *u.inner() as f64,
                _ => return,
            };
            *literal = LiteralValue::Double(number.into());
        }
        Expr::Call(call) => {
            let places = call.func_name == "_[_]";
            call.target.iter_mut().for_each(|target| make_fractional(target));
            call.args.iter_mut().take(if places { 1 } else { usize::MAX }).for_each(make_fractional);
        }
        Expr::List(list) => list.elements.iter_mut().for_each(make_fractional),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    make_fractional(&mut entry.value);
                }
            }
        }
        Expr::Select(select) => make_fractional(&mut select.operand),
        Expr::Comprehension(c) => {
            let parts = [&mut c.iter_range, &mut c.accu_init, &mut c.loop_cond, &mut c.loop_step, &mut c.result];
            parts.into_iter().for_each(make_fractional);
        }
        Expr::Struct(_) | Expr::Ident(_) | Expr::Unspecified => {}
    }
}

/// Cut to a whole number; `None` for what is none, and for 0.
fn cut(value: &Value) -> Option<i64> {
    let number = match value {
        Value::Int(i) => *i,
        Value::UInt(u) => i64::try_from(*u).unwrap_or(i64::MAX),
        Value::Float(x) if x.is_finite() => *x as i64,
        _ => return None,
    };
    (number != 0).then_some(number)
}

/// Reports one attribute.
pub struct RequestAttributeReporter {
    env: Arc<Env>,
    namespace: Arc<str>,
    name: Arc<str>,
    expression: Expression,
    condition: Option<Expression>,
}

impl UsageHook for RequestAttributeReporter {
    fn usage(&self, usage: &TokenUsage) -> Option<Attribute> {
        if let Some(condition) = &self.condition
            && !matches!(condition.value(&self.env, usage), Ok(Value::Bool(true)))
        {
            return None;
        }
        let value = cut(&self.expression.value(&self.env, usage).ok()?)?;
        Some(Attribute { namespace: Arc::clone(&self.namespace), name: Arc::clone(&self.name), value })
    }
}

const KEY: ParamKind = ParamKind::Object(&[
    Param::new("namespace", ParamKind::String, "Namespace of the dynamic metadata.").default("\"envoy.lb\""),
    Param::new("name", ParamKind::String, "Key in that namespace.").required(),
]);

const ATTRIBUTE: ParamKind = ParamKind::Object(&[
    Param::new("key", KEY, "Where the number goes.").required(),
    Param::new("expression", ParamKind::String, "CEL over `usage` that gives the number.").required(),
    Param::new("condition", ParamKind::String, "CEL over `usage` that must be true for the number to be reported."),
]);

/// Its row.
pub const ROW: Row = Row {
    params: &[Param::new("attributes", ParamKind::List(&ATTRIBUTE), "The attribute: exactly one.").required()],
    formula: "trunc(expression(usage)), where condition(usage) is true",
    example: "{attributes: [{key: {name: total}, expression: usage.total_tokens}]}",
    build: Some(build),
    ..Row::new(
        "request-attribute-reporter",
        &[Kind::Hook],
        Stability::Beta,
        "Reports a number computed from a request's token usage to the proxy.",
    )
};

/// The expression of a parameter; one that cannot be read is a fault there.
fn expression(b: &mut Build<'_>, params: &Params, param: &str) -> Option<Expression> {
    match Expression::parse(params.str(param)) {
        Ok(expression) => Some(expression),
        Err(error) => {
            b.fault_in(params, param, &format!("`{param}` {error}"));
            None
        }
    }
}

/// Tries an expression: one of a type that is never wanted is a fault, one that has no value at all is worth a warning.
fn try_out(b: &mut Build<'_>, params: &Params, param: &str, expression: &Expression, env: &Arc<Env>) {
    let usage = TokenUsage { prompt: 1000, completion: 100, total: 1100, cached: Some(500) };
    let wants_bool = param == "condition";
    match expression.value(env, &usage) {
        Ok(value) => {
            let fits = match value {
                Value::Bool(_) => wants_bool,
                Value::Int(_) | Value::UInt(_) | Value::Float(_) => !wants_bool,
                _ => false,
            };
            if !fits {
                let wanted = if wants_bool { "true or false" } else { "a number" };
                b.fault_in(params, param, &format!("`{param}` must give {wanted}, not {}", value.type_of()));
            }
        }
        Err(error) => {
            b.warning_in(
                params,
                param,
                &format!("`{param}` has no value for any usage, so nothing is reported: {error}"),
            );
        }
    }
}

fn build(b: &mut Build<'_>) -> Instance {
    let params = b.params;
    let mut attributes = params.objects("attributes");
    let (Some(attribute), None) = (attributes.next(), attributes.next()) else {
        if params.given("attributes") {
            b.fault("attributes", "`attributes` must have exactly one entry");
        }
        return Instance::default();
    };
    let Some(key) = attribute.object("key") else { return Instance::default() };
    if key.str("name").is_empty() && key.given("name") {
        b.fault_in(key, "name", "`name` must not be empty");
    }
    let env = Arc::new(Env::stdlib());
    let value = expression(b, attribute, "expression");
    let has_condition = !attribute.str("condition").is_empty();
    let condition = if has_condition { expression(b, attribute, "condition") } else { None };
    let Some(value) = value else { return Instance::default() };
    try_out(b, attribute, "expression", &value, &env);
    if let Some(condition) = &condition {
        try_out(b, attribute, "condition", condition, &env);
    }
    let namespace = Some(key.str("namespace")).filter(|n| !n.is_empty()).unwrap_or(NAMESPACE);
    let reporter = RequestAttributeReporter {
        env,
        namespace: namespace.into(),
        name: key.str("name").into(),
        expression: value,
        condition,
    };
    Instance { usage: Some(Arc::new(reporter)), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::compiled;
    use proptest::prelude::*;

    const USAGE: TokenUsage = TokenUsage { prompt: 7, completion: 2, total: 9, cached: Some(4) };

    fn reported_of(expression: &str, condition: Option<&str>, usage: &TokenUsage) -> Option<i64> {
        let reporter = RequestAttributeReporter {
            env: Arc::new(Env::stdlib()),
            namespace: NAMESPACE.into(),
            name: "tok".into(),
            expression: Expression::parse(expression).expect("an expression"),
            condition: condition.map(|c| Expression::parse(c).expect("a condition")),
        };
        reporter.usage(usage).map(|attribute| attribute.value)
    }

    fn reported(expression: &str) -> Option<i64> {
        reported_of(expression, None, &USAGE)
    }

    #[test]
    fn whole_and_fractional_literals_mean_what_they_say() {
        for (expression, value) in [
            ("usage.prompt_tokens + 2.0 * usage.completion_tokens", 11),
            ("usage.prompt_tokens + 2 * usage.completion_tokens", 11),
            ("usage.prompt_tokens + 0.5 * usage.completion_tokens + 1", 9),
            ("usage.completion_tokens * 10 - usage.prompt_tokens_details.cached_tokens", 16),
            ("usage.prompt_token_details.cached_tokens", 4),
            ("usage.total_tokens / 2", 4),
            ("int(usage.prompt_tokens) % 4", 3),
            ("usage.prompt_tokens % 4", 3),
            ("[10, 20][1] + int(usage.prompt_tokens)", 27),
            ("usage.prompt_tokens > 5 ? 3 : 4", 3),
            ("-usage.prompt_tokens", -7),
        ] {
            assert_eq!(reported(expression), Some(value), "{expression}");
        }
    }

    #[test]
    fn a_zero_a_failure_and_what_is_no_number_are_not_reported() {
        for expression in ["usage.prompt_tokens - 7", "0.9", "usage.nothing", "'text'", "1.0 / 0.0", "other + 1"] {
            assert_eq!(reported(expression), None, "{expression}");
        }
        let unknown = TokenUsage { cached: None, ..USAGE };
        assert_eq!(reported_of("usage.prompt_tokens_details.cached_tokens", None, &unknown), None);
        let told = "has(usage.prompt_tokens_details) ? usage.prompt_tokens_details.cached_tokens : 1.0";
        assert_eq!(reported_of(told, None, &unknown), Some(1));
    }

    #[test]
    fn a_condition_must_be_true() {
        for (condition, holds) in [
            ("usage.prompt_tokens > 5", true),
            ("usage.prompt_tokens > 5.5", true),
            ("usage.completion_tokens > 5", false),
            ("usage.nothing > 5", false),
            ("1", false),
        ] {
            assert_eq!(reported_of("1", Some(condition), &USAGE).is_some(), holds, "{condition}");
        }
    }

    #[test]
    fn what_can_be_told_beforehand_is_told() {
        let compile = |parameters: &str| {
            compiled(&format!(
                "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: queue-scorer\n\
                 - {{type: request-attribute-reporter, parameters: {parameters}}}\nschedulingProfiles:\n\
                 - {{name: default, plugins: [{{pluginRef: queue-scorer}}]}}\n"
            ))
        };
        for (parameters, fault) in [
            ("{}", "`attributes` is required"),
            ("{attributes: []}", "exactly one"),
            ("{attributes: [{key: {name: a}, expression: '1'}, {key: {name: b}, expression: '1'}]}", "exactly one"),
            ("{attributes: [{key: {}, expression: '1'}]}", "`name` is required"),
            ("{attributes: [{key: {name: a}, expression: '1 +'}]}", "`expression` is not CEL"),
            ("{attributes: [{key: {name: a}, expression: '\"x\"'}]}", "must give a number, not string"),
            ("{attributes: [{key: {name: a}, expression: '1', condition: '1'}]}", "must give true or false"),
        ] {
            let faults = compile(parameters).err().unwrap_or_default();
            assert!(faults.iter().any(|f| f.contains(fault)), "{parameters}: {faults:?}");
        }
        let warnings = compile("{attributes: [{key: {name: a}, expression: 'usage.prompt'}]}").expect("it compiles").1;
        assert!(warnings.iter().any(|w| w.contains("nothing is reported")), "{warnings:?}");
        let (compiled, _) =
            compile("{attributes: [{key: {namespace: my.ns, name: tok}, expression: '2 * usage.total_tokens'}]}")
                .expect("it compiles");
        let attribute = compiled.usage_hooks[0].usage(&USAGE).expect("a number");
        assert_eq!((&*attribute.namespace, &*attribute.name, attribute.value), ("my.ns", "tok", 18));
    }

    #[test]
    fn hostile_expressions_are_refused_and_do_not_exhaust_the_stack() {
        for text in [
            "(".repeat(2000),
            "-".repeat(4000),
            "!".repeat(4000),
            "[".repeat(4000),
            "a.".repeat(2000),
            "x".repeat(5000),
        ] {
            assert!(Expression::parse(&text).is_err(), "{}...", &text[..8]);
        }
        // Long chains may be read; evaluating them must come back.
        let env = Arc::new(Env::stdlib());
        for chain in ["1+".repeat(1500) + "1", "true&&".repeat(600) + "true", "usage".to_owned() + &".a".repeat(1900)] {
            let _ = Expression::parse(&chain).map(|e| e.value(&env, &USAGE));
        }
    }

    proptest! {
        #[test]
        fn no_usage_makes_it_panic(prompt: u64, completion: u64, total: u64, cached: Option<u64>) {
            let usage = TokenUsage { prompt, completion, total, cached };
            for expression in ["usage.prompt_tokens * 1000 + usage.total_tokens", "usage.prompt_tokens % 7"] {
                let _ = reported_of(expression, Some("usage.completion_tokens >= 0"), &usage);
            }
        }
    }
}
