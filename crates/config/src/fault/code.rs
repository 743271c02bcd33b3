//! What a fault is about, as a short word that does not change when its message is worded anew.

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $word:literal,)+) => {
        /// What a fault is about. Programs read the word ([`Code::as_str`]), people the message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Code {
            /// Every code, in the order of declaration.
            pub const ALL: &[Code] = &[$(Code::$name,)+];

            /// The word, in lower case with hyphens.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Code::$name => $word,)+
                }
            }

            /// What it means, in a sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Code::$name => concat!($($doc,)+).trim_ascii(),)+
                }
            }
        }
    };
}

codes! {
    // The text
    /// The file is larger than a configuration can be.
    TooLarge = "too-large",
    /// The file is no UTF-8 text.
    NotUtf8 = "not-utf8",
    /// The text is no YAML.
    BadYaml = "bad-yaml",
    /// More documents than one where one is read.
    SecondDocument = "second-document",
    /// An alias stands inside of what it refers to.
    IncompleteAlias = "incomplete-alias",
    /// A key is a list or a mapping.
    KeyNotText = "key-not-text",
    /// A key stands twice in one mapping.
    DuplicateKey = "duplicate-key",
    /// A YAML tag that has no meaning here.
    UnknownTag = "unknown-tag",
    /// Nested too deep.
    TooDeep = "too-deep",
    /// A merge key whose value is no mapping.
    BadMerge = "bad-merge",
    /// Aliases expand to too much.
    AliasesTooLarge = "aliases-too-large",
    // Fields and values
    /// A field that does not exist.
    UnknownField = "unknown-field",
    /// A value of another type than its field takes.
    WrongType = "wrong-type",
    /// A number that is infinite or none.
    NotFinite = "not-finite",
    /// Less than zero where nothing can be.
    Negative = "negative",
    /// No quantity such as `1Gi`.
    BadQuantity = "bad-quantity",
    /// No duration such as `30s`.
    BadDuration = "bad-duration",
    /// A duration without its unit.
    DurationWithoutUnit = "duration-without-unit",
    // The document
    /// The API version is deprecated.
    DeprecatedVersion = "deprecated-version",
    /// The API version is unknown.
    UnknownVersion = "unknown-version",
    /// The document is of another kind.
    WrongKind = "wrong-kind",
    /// A field has moved elsewhere.
    DeprecatedField = "deprecated-field",
    /// A field that nothing reads.
    FieldWithoutEffect = "field-without-effect",
    /// A feature gate that does not exist.
    UnknownGate = "unknown-gate",
    /// A feature gate of an earlier release whose effect is always on.
    GateAlwaysOn = "gate-always-on",
    /// A feature gate that is set to neither true nor false.
    BadGateValue = "bad-gate-value",
    /// A feature gate of something that is not in this release.
    GateNotAvailable = "gate-not-available",
    /// The file holds several configurations.
    SeveralDocuments = "several-documents",
    // Plugins
    /// A plugin without a type.
    MissingType = "missing-type",
    /// Two plugins of one name.
    DuplicatePlugin = "duplicate-plugin",
    /// A plugin type that does not exist.
    UnknownType = "unknown-type",
    /// A plugin type that is not in this release.
    NotAvailable = "not-available",
    /// A plugin type that must be allowed first.
    Experimental = "experimental",
    /// A plugin type that is deprecated.
    DeprecatedType = "deprecated-type",
    /// A plugin that is declared and used nowhere.
    UnusedPlugin = "unused-plugin",
    // Parameters
    /// A parameter that the type does not have.
    UnknownParameter = "unknown-parameter",
    /// Parameters for a type that takes none.
    NoParameters = "no-parameters",
    /// A parameter that must be given.
    MissingParameter = "missing-parameter",
    /// A parameter in other letter case than it is spelt.
    ParameterSpelling = "parameter-spelling",
    /// A parameter given twice, in two spellings.
    ParameterTwice = "parameter-twice",
    /// A parameter that is deprecated.
    DeprecatedParameter = "deprecated-parameter",
    /// Not one of the words that a parameter takes.
    UnknownWord = "unknown-word",
    /// A number that is too small or too large.
    OutOfRange = "out-of-range",
    /// A value that the plugin itself refuses.
    ParameterRule = "parameter-rule",
    /// A value that works, though hardly as meant.
    LikelyNotMeant = "likely-not-meant",
    /// A value that is not taken as written.
    Corrected = "corrected",
    // References
    /// A place that wants a plugin's name and has none.
    MissingPluginRef = "missing-plugin-ref",
    /// A name that no plugin has.
    UndefinedPlugin = "undefined-plugin",
    /// A plugin that cannot do what it is named for.
    WrongPluginKind = "wrong-plugin-kind",
    /// A parser that is neither declared nor a type.
    UnknownParser = "unknown-parser",
    /// A parser behind one that takes all.
    ParserNeverAsked = "parser-never-asked",
    // Profiles
    /// A profile without a name.
    MissingProfileName = "missing-profile-name",
    /// Two profiles of one name.
    DuplicateProfile = "duplicate-profile",
    /// A plugin that does nothing in a profile.
    NoEffectInProfile = "no-effect-in-profile",
    /// A plugin that a profile lists twice.
    ListedTwice = "listed-twice",
    /// A weight of what is no scorer.
    WeightWithoutEffect = "weight-without-effect",
    /// A scorer that is switched off by its weight.
    ZeroWeight = "zero-weight",
    /// A scorer that is turned round by its weight.
    NegativeWeight = "negative-weight",
    /// Two pickers in one profile.
    SeveralPickers = "several-pickers",
    /// A profile without a picker while there are several.
    UnclearPicker = "unclear-picker",
    /// Several profiles and nothing that chooses among them.
    NoProfileHandler = "no-profile-handler",
    /// Two profile handlers.
    SeveralHandlers = "several-handlers",
    /// Several profiles under a handler of one.
    SingleProfile = "single-profile",
    /// A profile that its handler never runs.
    UnreachableProfile = "unreachable-profile",
    // Data
    /// A plugin that reads engine metrics, and nothing that provides them.
    NoEngineMetrics = "no-engine-metrics",
    /// A signal that the engine's metrics do not have.
    MissingSignal = "missing-signal",
    /// Prompts are compared, and nothing reads them.
    NoPrompts = "no-prompts",
    /// A named producer that does not provide what is read.
    UnknownProducer = "unknown-producer",
    /// A producer that is needed and cannot be created without parameters.
    ProducerNotDeclared = "producer-not-declared",
    /// Several producers of what is read.
    AmbiguousProducer = "ambiguous-producer",
    /// Plugins that read each other's data in a circle.
    CyclicData = "cyclic-data",
    /// An extractor that does not read what its source fetches.
    WrongExtractor = "wrong-extractor",
    /// Two extractors of one type for one source.
    ExtractorTwice = "extractor-twice",
    /// No data source at all.
    NoDataSource = "no-data-source",
    /// Prefix indexes of different block sizes.
    BlockSizesDiffer = "block-sizes-differ",
    // Flow control
    /// Two bands of one priority.
    DuplicatePriority = "duplicate-priority",
    /// A band without a priority.
    MissingPriority = "missing-priority",
    /// Flow control is set up and not switched on.
    FlowControlOff = "flow-control-off",
    // Endpoints files
    /// An endpoint without an address.
    MissingAddress = "missing-address",
    /// No address of the kind that is wanted.
    BadAddress = "bad-address",
    /// An endpoint without a port.
    MissingPort = "missing-port",
    /// No port.
    BadPort = "bad-port",
    /// An endpoint that is defined twice.
    DuplicateEndpoint = "duplicate-endpoint",
    /// A field of an endpoints file that nothing reads.
    IgnoredField = "ignored-field",
    /// A label, or a value of one, that is deprecated.
    DeprecatedLabel = "deprecated-label",
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_word_of_its_own_and_a_meaning() {
        for (i, code) in Code::ALL.iter().enumerate() {
            let word = code.as_str();
            assert!(word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{word}");
            assert!(Code::ALL[..i].iter().all(|c| c.as_str() != word), "{word} twice");
            assert!(code.meaning().ends_with('.'), "{word}: {}", code.meaning());
        }
    }
}
