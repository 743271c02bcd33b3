use super::*;
use crate::compile::{CompileOptions, Compiled, DefaultProfile, compile};
use pointsman_config::Faults;
use pointsman_wire::body::{ImageEstimate, TokensPerImage, VideoEstimate};
use serde_json::{Value, json};

fn compiled(parameters: &str) -> (Option<Compiled>, Vec<String>) {
    let text = format!(
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: queue-scorer\n- type: token-producer\n  parameters: {parameters}\n"
    );
    let options = CompileOptions { allow_experimental: false, default: DefaultProfile::Epp, states: Arc::default() };
    let mut faults = Faults::new();
    let compiled = compile(text.as_bytes(), &options, &mut faults);
    let ours = ["estimate", "vllm", "modelName"];
    let said = faults.iter().map(ToString::to_string).filter(|f| ours.iter().any(|word| f.contains(word)));
    (compiled, said.collect())
}

fn estimate(parameters: &str) -> EstimateOptions {
    let (compiled, faults) = compiled(&format!("{{estimate: {parameters}}}"));
    assert_eq!(faults, [""; 0], "{parameters}");
    compiled.expect("a good document").estimate
}

fn image(parameters: &str) -> ImageEstimate {
    estimate(&format!("{{image: {parameters}}}")).image
}

fn video(parameters: &str) -> VideoEstimate {
    estimate(&format!("{{video: {parameters}}}")).video
}

#[test]
fn without_settings_the_defaults_of_the_body_reader_are_in_force() {
    for parameters in ["{}", "{estimate: {}}", "{estimate: null}", "{estimate: {image: {}, video: {frames: {}}}}"] {
        let (compiled, faults) = compiled(parameters);
        assert_eq!(faults, [""; 0]);
        assert_eq!(compiled.expect("a good document").estimate, EstimateOptions::default(), "{parameters}");
    }
}

#[test]
fn the_default_document_has_the_default_estimate() {
    let options = CompileOptions { allow_experimental: false, default: DefaultProfile::Epp, states: Arc::default() };
    let compiled = compile(b"", &options, &mut Faults::new()).expect("the built-in document");
    assert_eq!(compiled.estimate, EstimateOptions::default());
}

#[test]
fn every_key_of_an_image_reaches_the_body_reader() {
    let default = ImageEstimate::default();
    assert_eq!(image("{defaultResolution: {width: 800}}").resolution, (800, 360));
    assert_eq!(image("{defaultResolution: {height: 600}}").resolution, (640, 600));
    assert_eq!(image("{dynamic: {factor: 784}}").tokens, TokensPerImage::Dynamic { factor: 784 });
    assert_eq!(image("{mode: static, static: {staticToken: 256}}").tokens, TokensPerImage::Static { tokens: 256 });
    assert_eq!(image("{mode: static}").tokens, TokensPerImage::Static { tokens: 1 });
    // The settings of the mode that is not chosen are kept for when it is.
    assert_eq!(image("{mode: dynamic, static: {staticToken: 256}}"), default);
}

#[test]
fn every_key_of_a_video_reaches_the_body_reader() {
    let default = VideoEstimate::default();
    assert_eq!(video("{defaultResolution: {width: 1280, height: 720}}").resolution, (1280, 720));
    assert_eq!(video("{defaultDuration: 2.5}").duration, 2.5);
    assert_eq!(video("{maxVideoTokens: 1000}").max_tokens, 1000);
    assert_eq!(video("{tokensPerFrame: {dynamic: {factor: 784}}}").tokens, TokensPerImage::Dynamic { factor: 784 });
    assert_eq!(
        video("{tokensPerFrame: {mode: static, static: {numTokensPerFrame: 64}}}").tokens,
        TokensPerImage::Static { tokens: 64 }
    );
    assert_eq!(video("{frames: {minFrames: 3}}"), VideoEstimate { min_frames: 3, ..default });
    assert_eq!(video("{frames: {maxFrames: 9}}"), VideoEstimate { max_frames: 9, ..default });
    assert_eq!(
        video("{frames: {sampled: {sampleFPS: 0.5, temporalPatchSize: 2}}}").frames,
        Frames::Sampled { fps: 0.5, temporal_patch_size: 2 }
    );
    assert_eq!(
        video("{frames: {mode: strided, strided: {defaultSourceFPS: 30, frameStride: 15}}}").frames,
        Frames::Strided { source_fps: 30.0, stride: 15 }
    );
    assert_eq!(video("{frames: {mode: strided}}").frames, Frames::Strided { source_fps: 24.0, stride: 1 });
}

#[test]
fn numbers_of_zero_or_less_mean_the_default_and_are_told() {
    let (compiled, faults) = compiled(
        "{estimate: {image: {defaultResolution: {width: 0, height: -1}, dynamic: {factor: 0}, static: {staticToken: -3}},\
         video: {defaultDuration: -1, maxVideoTokens: -1, tokensPerFrame: {static: {numTokensPerFrame: 0}},\
         frames: {minFrames: -1, maxFrames: 0, sampled: {sampleFPS: 0, temporalPatchSize: 0},\
         strided: {defaultSourceFPS: -2, frameStride: 0}}}}}",
    );
    assert_eq!(compiled.expect("warnings only").estimate, EstimateOptions::default());
    // All but `maxFrames`, whose 0 is its own default.
    assert_eq!(faults.len(), 12, "{faults:#?}");
    let factor = faults.iter().find(|f| f.contains("image.dynamic.factor")).expect("a warning");
    assert!(factor.contains("plugins[1].parameters.estimate.image.dynamic.factor"), "{factor}");
    assert!(factor.contains("1024 is in force"), "{factor}");
}

#[test]
fn a_mode_that_does_not_exist_is_an_error_at_its_place() {
    for (parameters, path) in [
        ("{image: {mode: dynamical}}", "image.mode"),
        ("{video: {tokensPerFrame: {mode: sampled}}}", "video.tokensPerFrame.mode"),
        ("{video: {frames: {mode: dynamic}}}", "video.frames.mode"),
        ("{video: {frames: {stride: 3}}}", "video.frames.stride"),
        ("3", "estimate"),
    ] {
        let (compiled, faults) = compiled(&format!("{{estimate: {parameters}}}"));
        assert!(compiled.is_none(), "{parameters}");
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].starts_with("6:") && faults[0].contains(path), "{faults:?}");
    }
}

#[test]
fn two_back_ends_and_one_that_lacks_what_it_needs_are_refused() {
    for (parameters, want) in [
        ("{estimate: {}, modelName: m, vllm: {}}", "`estimate` and `vllm` exclude each other"),
        ("{vllm: {url: \"http://localhost:8000\"}}", "`modelName` is needed"),
        ("{modelName: m, vllm: {url: \"localhost\"}}", "`localhost` is not an address"),
        ("{modelName: m, udsTokenizerConfig: {}}", "behind a Unix socket"),
    ] {
        let (compiled, faults) = compiled(parameters);
        assert!(compiled.is_none(), "{parameters}");
        assert!(faults.iter().any(|f| f.contains(want)), "{faults:?}");
    }
}

#[test]
fn a_model_alone_is_rendered_by_a_server_on_this_machine() {
    let rendered = |parameters: &str| {
        let (compiled, faults) = compiled(parameters);
        compiled.unwrap_or_else(|| panic!("{faults:?}")).render
    };
    let render = rendered("{modelName: org/base}").expect("rendered");
    assert_eq!((&*render.host, render.port, render.tls, &*render.model), ("localhost", 8000, false, "org/base"));
    assert_eq!((render.timeout.as_secs(), render.mm_timeout.as_secs()), (5, 30));
    let render = rendered("{modelName: m, vllm: {url: \"https://r.example/x\", timeout: 250ms, mmTimeout: 0s}}")
        .expect("rendered");
    assert_eq!((render.tls, render.port, &*render.base), (true, 443, "/x"));
    assert_eq!((render.timeout.as_millis(), render.mm_timeout.as_secs()), (250, 30));
    assert_eq!(rendered("{estimate: {}, modelName: m}"), None);
    assert_eq!(rendered("{}"), None);
}

#[test]
fn of_several_token_producers_the_first_one_sets_the_estimate() {
    let text = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: queue-scorer\n\
         - type: token-producer\n  parameters: {estimate: {video: {maxVideoTokens: 7}}}\n\
         - name: second\n  type: token-producer\n  parameters: {estimate: {video: {maxVideoTokens: 8}}}\n";
    let options = CompileOptions { allow_experimental: false, default: DefaultProfile::Epp, states: Arc::default() };
    let mut faults = Faults::new();
    let compiled = compile(text.as_bytes(), &options, &mut faults).expect("a good document");
    assert_eq!(compiled.estimate.video.max_tokens, 7);
}

#[test]
fn the_worked_examples_come_out() {
    assert_eq!(image("{mode: dynamic}").tokens(Some((1024, 768))), 768);
    assert_eq!(image("{}").tokens(None), 225);
    assert_eq!(video("{}").tokens(), 4500);
}

#[test]
fn the_effective_document_shows_the_estimate_and_marks_what_nobody_wrote() {
    let token_producer = |parameters: &str| -> Value {
        let effective = compiled(parameters).0.expect("a good document").effective;
        let plugins = effective["plugins"].as_array().expect("plugins").clone();
        plugins.into_iter().find(|p| p["type"] == "token-producer").expect("declared")
    };
    let shown = token_producer("{}");
    assert_eq!(shown["defaulted"], json!(["estimate"]));
    let of_estimate = &shown["parameters"]["estimate"];
    assert_eq!(
        *of_estimate,
        json!({
            "image": {
                "mode": "dynamic", "defaultResolution": {"width": 640, "height": 360},
                "static": {"staticToken": 1}, "dynamic": {"factor": 1024},
            },
            "video": {
                "defaultResolution": {"width": 640, "height": 360}, "defaultDuration": 10.0, "maxVideoTokens": 0,
                "tokensPerFrame": {
                    "mode": "dynamic", "static": {"numTokensPerFrame": 1}, "dynamic": {"factor": 1024},
                },
                "frames": {
                    "mode": "sampled", "minFrames": 0, "maxFrames": 0,
                    "sampled": {"sampleFPS": 2.0, "temporalPatchSize": 1},
                    "strided": {"defaultSourceFPS": 24.0, "frameStride": 1},
                },
            },
        })
    );
    let shown = token_producer("{estimate: {image: {dynamic: {factor: 784}}}}");
    assert_eq!(shown["parameters"]["estimate"]["image"]["dynamic"], json!({"factor": 784}));
    assert_eq!(
        shown["defaulted"],
        json!(["estimate.image.mode", "estimate.image.defaultResolution", "estimate.image.static", "estimate.video"])
    );
}

fn headers(pairs: &[(&str, &str)]) -> Vec<(Box<str>, Box<str>)> {
    pairs.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect()
}

#[test]
fn request_headers_take_the_place_of_the_video_defaults() {
    let strided = video("{frames: {mode: strided, strided: {frameStride: 10}}}");
    let strided = EstimateOptions { video: strided, ..EstimateOptions::default() };
    let sent = headers(&[
        ("x-llm-d-video-fps", "30"),
        ("x-llm-d-video-duration-seconds", "2.5"),
        ("x-llm-d-video-resolution", "1280x720"),
    ]);
    let hinted = video_hints(&sent, strided.clone()).video;
    assert_eq!((hinted.duration, hinted.resolution), (2.5, (1280, 720)));
    assert_eq!(hinted.frames, Frames::Strided { source_fps: 30.0, stride: 10 });
    // 2.5 s of 30 frames, every tenth, at 900 tokens.
    assert_eq!(hinted.tokens(), 7 * 900);
    let sampled = video_hints(&sent, EstimateOptions::default());
    assert_eq!(sampled.video.frames, VideoEstimate::default().frames, "the source's rate does not matter to samples");
    assert_eq!(sampled.video.tokens(), 5 * 900);
    assert_eq!(sampled.image, ImageEstimate::default());
    assert_eq!(video_hints(&[], strided.clone()), strided);
}

#[test]
fn of_several_headers_of_one_name_the_last_counts() {
    let sent = headers(&[("x-llm-d-video-duration-seconds", "5"), ("x-llm-d-video-duration-seconds", "7")]);
    assert_eq!(video_hints(&sent, EstimateOptions::default()).video.duration, 7.0);
    let sent = headers(&[("x-llm-d-video-duration-seconds", "5"), ("x-llm-d-video-duration-seconds", "long")]);
    assert_eq!(video_hints(&sent, EstimateOptions::default()).video.duration, 10.0);
}

#[test]
fn hints_that_are_no_positive_numbers_are_ignored() {
    let strided = EstimateOptions {
        video: VideoEstimate { frames: Frames::Strided { source_fps: 24.0, stride: 1 }, ..VideoEstimate::default() },
        ..EstimateOptions::default()
    };
    for bad in ["", "0", "-1", "NaN", "inf", "1e999", "ten", "10s"] {
        for name in ["x-llm-d-video-fps", "x-llm-d-video-duration-seconds"] {
            assert_eq!(video_hints(&headers(&[(name, bad)]), strided.clone()), strided, "{name}: {bad}");
        }
    }
    let too_large = format!("640x{}0", u64::MAX);
    for bad in ["", "640", "x", "640x", "x360", "0x360", "640x0", "-640x360", "640x360x2", "6.4x3.6", &too_large] {
        let sent = headers(&[("x-llm-d-video-resolution", bad)]);
        assert_eq!(video_hints(&sent, strided.clone()), strided, "{bad}");
    }
}

#[test]
fn absurd_hints_cost_no_more_than_the_bound_of_one_item() {
    let most = u64::MAX.to_string();
    let sent = headers(&[
        ("x-llm-d-video-duration-seconds", "1e308"),
        ("x-llm-d-video-resolution", &format!("{most}x{most}")),
    ]);
    assert_eq!(video_hints(&sent, EstimateOptions::default()).video.tokens(), 1 << 20);
}
