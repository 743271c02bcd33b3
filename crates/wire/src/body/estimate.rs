//! What an image, a video or a sound is taken to cost in tokens (plugin catalogue 9.1).

/// Most tokens one item is taken to cost: 1,048,576. A picture header can claim any size.
pub(super) const MAX_ASSET_TOKENS: u64 = 1 << 20;

/// Parameters of the estimate. The defaults are those of `token-producer`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EstimateOptions {
    /// Images.
    pub image: ImageEstimate,
    /// Videos.
    pub video: VideoEstimate,
}

/// How a picture's size becomes tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TokensPerImage {
    /// Width times height in pixels divided by this factor, at least 1 token.
    Dynamic {
        /// Pixels per token; 1024 by default, 0 means the default.
        factor: u64,
    },
    /// Always this many tokens; 0 counts as 1.
    Static {
        /// Tokens.
        tokens: u64,
    },
}

impl Default for TokensPerImage {
    fn default() -> Self {
        Self::Dynamic { factor: 1024 }
    }
}

impl TokensPerImage {
    fn tokens(self, width: u64, height: u64) -> u64 {
        let tokens = match self {
            Self::Dynamic { factor } => width.saturating_mul(height) / if factor == 0 { 1024 } else { factor },
            Self::Static { tokens } => tokens,
        };
        tokens.clamp(1, MAX_ASSET_TOKENS)
    }
}

/// Parameters for images.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageEstimate {
    /// Size in pixels (width, height) of an image that cannot be looked into; 640 x 360 by default.
    pub resolution: (u64, u64),
    /// Size to tokens.
    pub tokens: TokensPerImage,
}

impl Default for ImageEstimate {
    fn default() -> Self {
        Self { resolution: (640, 360), tokens: TokensPerImage::default() }
    }
}

impl ImageEstimate {
    /// Tokens of an image of this size, or of the default size.
    #[must_use]
    pub fn tokens(&self, size: Option<(u32, u32)>) -> u64 {
        let (width, height) = size.map_or(self.resolution, |(w, h)| (u64::from(w), u64::from(h)));
        self.tokens.tokens(width, height)
    }
}

/// How many frames of a video are looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Frames {
    /// A number of frames per second.
    Sampled {
        /// Frames per second; 2 by default.
        fps: f64,
        /// Frames that share one set of tokens; 1 and less change nothing.
        temporal_patch_size: u64,
    },
    /// Every n-th frame.
    Strided {
        /// Frames per second of the video; 24 by default.
        source_fps: f64,
        /// n; 0 counts as 1.
        stride: u64,
    },
}

/// Parameters for videos. Hints of request headers go into a copy of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VideoEstimate {
    /// Size in pixels (width, height); 640 x 360 by default.
    pub resolution: (u64, u64),
    /// Length in seconds; 10 by default.
    pub duration: f64,
    /// Frames looked at.
    pub frames: Frames,
    /// Fewest frames; 0 is no bound.
    pub min_frames: u64,
    /// Most frames; 0 is no bound.
    pub max_frames: u64,
    /// Tokens per frame.
    pub tokens: TokensPerImage,
    /// Most tokens per video; 0 is no bound but 1,048,576.
    pub max_tokens: u64,
}

impl Default for VideoEstimate {
    fn default() -> Self {
        Self {
            resolution: (640, 360),
            duration: 10.0,
            frames: Frames::Sampled { fps: 2.0, temporal_patch_size: 1 },
            min_frames: 0,
            max_frames: 0,
            tokens: TokensPerImage::default(),
            max_tokens: 0,
        }
    }
}

impl VideoEstimate {
    /// Tokens of a video.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        let bounded = |frames: u64| {
            let most = if self.max_frames == 0 { u64::MAX } else { self.max_frames };
            frames.max(self.min_frames).min(most)
        };
        // Casts of floats to integers saturate, and NaN becomes 0.
        let frames = match self.frames {
            Frames::Sampled { fps, temporal_patch_size } => {
                bounded((self.duration * fps) as u64) / temporal_patch_size.max(1)
            }
            Frames::Strided { source_fps, stride } => bounded((self.duration * source_fps) as u64 / stride.max(1)),
        };
        let tokens = frames.saturating_mul(self.tokens.tokens(self.resolution.0, self.resolution.1));
        let most = if self.max_tokens == 0 { MAX_ASSET_TOKENS } else { self.max_tokens.min(MAX_ASSET_TOKENS) };
        tokens.min(most).max(1)
    }
}

/// Tokens of a sound whose content string has this many bytes.
pub(super) fn audio_tokens(bytes: u64) -> u64 {
    bytes.div_ceil(4).clamp(1, MAX_ASSET_TOKENS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_costs_its_pixels_by_the_factor_and_at_least_one_token() {
        let image = ImageEstimate::default();
        assert_eq!(image.tokens(Some((1024, 768))), 768);
        assert_eq!(image.tokens(None), 225);
        assert_eq!(image.tokens(Some((1, 1))), 1);
        assert_eq!(image.tokens(Some((u32::MAX, u32::MAX))), MAX_ASSET_TOKENS);
        assert_eq!(ImageEstimate { tokens: TokensPerImage::Static { tokens: 0 }, ..image }.tokens(None), 1);
    }

    #[test]
    fn a_video_costs_frames_times_tokens_per_frame() {
        let video = VideoEstimate::default();
        assert_eq!(video.tokens(), 4500);
        assert_eq!(
            VideoEstimate { frames: Frames::Sampled { fps: 2.0, temporal_patch_size: 2 }, ..video }.tokens(),
            2250
        );
        assert_eq!(VideoEstimate { max_frames: 4, ..video }.tokens(), 900);
        assert_eq!(VideoEstimate { min_frames: 30, ..video }.tokens(), 6750);
        assert_eq!(VideoEstimate { max_tokens: 1000, ..video }.tokens(), 1000);
        assert_eq!(VideoEstimate { frames: Frames::Strided { source_fps: 24.0, stride: 12 }, ..video }.tokens(), 4500);
        assert_eq!(VideoEstimate { duration: f64::NAN, ..video }.tokens(), 1);
        assert_eq!(VideoEstimate { duration: f64::INFINITY, ..video }.tokens(), MAX_ASSET_TOKENS);
    }

    #[test]
    fn a_sound_costs_a_quarter_of_its_characters_rounded_up() {
        assert_eq!([0, 1, 4, 5].map(audio_tokens), [1, 1, 1, 2]);
    }
}
