//! Parameters of `estimate`: what a picture or a video is taken to cost.
//!
//! A number of zero or less means the default; where zero is the default already (no bound), only less is corrected. Every correction is told.

use crate::build::Build;
use pointsman_config::{Param, ParamKind, Params};
use pointsman_wire::body::{EstimateOptions, Frames, ImageEstimate, TokensPerImage, VideoEstimate};

const RESOLUTION: ParamKind = ParamKind::Object(&[
    Param::new("width", ParamKind::INTEGER, "Width in pixels.").default("640"),
    Param::new("height", ParamKind::INTEGER, "Height in pixels.").default("360"),
]);
const DYNAMIC: ParamKind =
    ParamKind::Object(&[Param::new("factor", ParamKind::INTEGER, "Pixels per token.").default("1024")]);
const TOKEN_MODE: ParamKind = ParamKind::Enum(&["dynamic", "static"]);
const TOKEN_MODE_DOC: &str = "`dynamic`: width times height divided by a factor; `static`: one number for all.";

const IMAGE: ParamKind = ParamKind::Object(&[
    Param::new("mode", TOKEN_MODE, TOKEN_MODE_DOC).default("\"dynamic\""),
    Param::new("defaultResolution", RESOLUTION, "Size of an image that cannot be looked into, such as a URL.")
        .default("{}"),
    Param::new(
        "static",
        ParamKind::Object(&[Param::new("staticToken", ParamKind::INTEGER, "Tokens of every image.").default("1")]),
        "For mode `static`.",
    )
    .default("{}"),
    Param::new("dynamic", DYNAMIC, "For mode `dynamic`.").default("{}"),
]);

const TOKENS_PER_FRAME: ParamKind = ParamKind::Object(&[
    Param::new("mode", TOKEN_MODE, TOKEN_MODE_DOC).default("\"dynamic\""),
    Param::new(
        "static",
        ParamKind::Object(
            &[Param::new("numTokensPerFrame", ParamKind::INTEGER, "Tokens of every frame.").default("1")],
        ),
        "For mode `static`.",
    )
    .default("{}"),
    Param::new("dynamic", DYNAMIC, "For mode `dynamic`.").default("{}"),
]);

const SAMPLED: ParamKind = ParamKind::Object(&[
    Param::new("sampleFPS", ParamKind::NUMBER, "Frames looked at per second of video.").default("2.0"),
    Param::new("temporalPatchSize", ParamKind::INTEGER, "Frames that share one set of tokens.").default("1"),
]);
const STRIDED: ParamKind = ParamKind::Object(&[
    Param::new(
        "defaultSourceFPS",
        ParamKind::NUMBER,
        "Frames per second of a video whose request has no `x-llm-d-video-fps`.",
    )
    .default("24.0"),
    Param::new("frameStride", ParamKind::INTEGER, "Every how-manieth frame is looked at.").default("1"),
]);

const FRAMES: ParamKind = ParamKind::Object(&[
    Param::new(
        "mode",
        ParamKind::Enum(&["sampled", "strided"]),
        "`sampled`: a number of frames per second; `strided`: every n-th frame of the source.",
    )
    .default("\"sampled\""),
    Param::new("minFrames", ParamKind::INTEGER, "Fewest frames; 0 is no bound.").default("0"),
    Param::new("maxFrames", ParamKind::INTEGER, "Most frames; 0 is no bound.").default("0"),
    Param::new("sampled", SAMPLED, "For mode `sampled`.").default("{}"),
    Param::new("strided", STRIDED, "For mode `strided`.").default("{}"),
]);

const VIDEO: ParamKind = ParamKind::Object(&[
    Param::new("defaultResolution", RESOLUTION, "Size of a video whose request has no `x-llm-d-video-resolution`.")
        .default("{}"),
    Param::new(
        "defaultDuration",
        ParamKind::NUMBER,
        "Seconds of a video whose request has no `x-llm-d-video-duration-seconds`.",
    )
    .default("10.0"),
    Param::new("maxVideoTokens", ParamKind::INTEGER, "Most tokens of one video; 0 is no bound but 1048576.")
        .default("0"),
    Param::new("tokensPerFrame", TOKENS_PER_FRAME, "What one frame costs.").default("{}"),
    Param::new("frames", FRAMES, "How many frames are looked at.").default("{}"),
]);

/// What `estimate` takes.
pub(super) const ESTIMATE: ParamKind = ParamKind::Object(&[
    Param::new("image", IMAGE, "What an image is taken to cost.").default("{}"),
    Param::new("video", VIDEO, "What a video is taken to cost.").default("{}"),
]);

/// The decoded `estimate` as the body reader takes it.
pub(super) fn options(b: &mut Build<'_>) -> EstimateOptions {
    // Every object among the rows has a default, so each is there.
    b.params.object("estimate").and_then(|p| Reader { b }.options(p)).unwrap_or_default()
}

struct Reader<'r, 'b> {
    b: &'r mut Build<'b>,
}

impl Reader<'_, '_> {
    fn options(&mut self, p: &Params) -> Option<EstimateOptions> {
        Some(EstimateOptions { image: self.image(p.object("image")?)?, video: self.video(p.object("video")?)? })
    }

    fn image(&mut self, p: &Params) -> Option<ImageEstimate> {
        let default = ImageEstimate::default();
        Some(ImageEstimate {
            resolution: self.resolution(p.object("defaultResolution")?, default.resolution),
            tokens: self.tokens(p, "staticToken")?,
        })
    }

    fn video(&mut self, p: &Params) -> Option<VideoEstimate> {
        let default = VideoEstimate::default();
        let frames = p.object("frames")?;
        Some(VideoEstimate {
            resolution: self.resolution(p.object("defaultResolution")?, default.resolution),
            duration: self.positive_number(p, "defaultDuration", default.duration),
            frames: self.frames(frames)?,
            min_frames: self.bound(frames, "minFrames"),
            max_frames: self.bound(frames, "maxFrames"),
            tokens: self.tokens(p.object("tokensPerFrame")?, "numTokensPerFrame")?,
            max_tokens: self.bound(p, "maxVideoTokens"),
        })
    }

    fn frames(&mut self, p: &Params) -> Option<Frames> {
        let (sampled, strided) = (p.object("sampled")?, p.object("strided")?);
        let sampled = Frames::Sampled {
            fps: self.positive_number(sampled, "sampleFPS", 2.0),
            temporal_patch_size: self.positive(sampled, "temporalPatchSize", 1),
        };
        let strided = Frames::Strided {
            source_fps: self.positive_number(strided, "defaultSourceFPS", 24.0),
            stride: self.positive(strided, "frameStride", 1),
        };
        Some(if p.str("mode") == "strided" { strided } else { sampled })
    }

    fn tokens(&mut self, p: &Params, static_key: &str) -> Option<TokensPerImage> {
        let (dynamic, fixed) = (p.object("dynamic")?, p.object("static")?);
        let factor = self.positive(dynamic, "factor", 1024);
        let tokens = self.positive(fixed, static_key, 1);
        Some(if p.str("mode") == "static" {
            TokensPerImage::Static { tokens }
        } else {
            TokensPerImage::Dynamic { factor }
        })
    }

    fn resolution(&mut self, p: &Params, default: (u64, u64)) -> (u64, u64) {
        (self.positive(p, "width", default.0), self.positive(p, "height", default.1))
    }

    fn positive(&mut self, p: &Params, name: &str, default: u64) -> u64 {
        match p.u64(name) {
            0 => {
                self.b.corrected_in(p, name, &default.to_string());
                default
            }
            value => value,
        }
    }

    fn positive_number(&mut self, p: &Params, name: &str, default: f64) -> f64 {
        let value = p.f64(name);
        if value > 0.0 {
            return value;
        }
        self.b.corrected_in(p, name, &default.to_string());
        default
    }

    fn bound(&mut self, p: &Params, name: &str) -> u64 {
        if p.i64(name) < 0 {
            self.b.corrected_in(p, name, "0 (no bound)");
        }
        p.u64(name)
    }
}
