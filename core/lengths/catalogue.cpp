#include "core/lengths/catalogue.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/lengths/portable_math.hpp"
#include "core/lengths/tables.hpp"

namespace dcp::lengths {

namespace {

constexpr double kMostOffset = 1e6;
constexpr double kMostExponent = 20;

// Lengths in the order of their rank 1, 2, 3, ... and the probability of a rank.
using Ranked = std::vector<Length>;

// (rank + offset)^-alpha.
DistributionPtr zipf(const Ranked& ranked, Keys& keys) {
    const double alpha = keys.real("alpha", 3, 0, kMostExponent);
    const double offset = keys.real("offset", 5, 0, kMostOffset);
    std::vector<Classes::Class> classes;
    for (std::size_t i = 0; i < ranked.size(); ++i) {
        const double rank = static_cast<double>(i + 1) + offset;
        classes.push_back({ranked[i], portable_exp(-alpha * portable_log(rank))});
    }
    return std::make_shared<Classes>(classes);
}

DistributionPtr uniform(const Ranked& ranked) {
    std::vector<Classes::Class> classes;
    classes.reserve(ranked.size());
    for (const Length& length : ranked) {
        classes.push_back({length, 1});
    }
    return std::make_shared<Classes>(classes);
}

double half_normal_weight(double steps, double sigma) {
    return portable_exp(std::max(-steps * steps / (2 * sigma * sigma), -700.0));
}

constexpr double kLeastSigma = 0.1;
constexpr double kMostSigma = 1000;

DistributionPtr half_normal(const Ranked& ranked, Keys& keys) {
    const double sigma = keys.real("sigma", 4, kLeastSigma, kMostSigma);
    std::vector<Classes::Class> classes;
    for (std::size_t i = 0; i < ranked.size(); ++i) {
        classes.push_back({ranked[i], half_normal_weight(static_cast<double>(i), sigma)});
    }
    return std::make_shared<Classes>(classes);
}

// min, 2 min, 4 min, ... up to max.
Ranked octaves(Keys& keys) {
    const Limits limits = keys.limits(1024, 1 << 20);
    Ranked ranked;
    for (std::int64_t tokens = limits.min; tokens <= limits.max; tokens *= 2) {
        ranked.push_back({.tokens = tokens});
    }
    return ranked;
}

// The buckets of Open-Sora: five sizes of image, and videos of 51, 102, 204 and 408 frames, which
// are 15, 30, 60 and 120 latent frames of the same tokens.
constexpr std::array<std::int64_t, 5> kFrameTokens{144, 405, 920, 1620, 3600};
constexpr std::array<std::int64_t, 4> kLatentFrames{15, 30, 60, 120};

Length video(std::size_t size, std::size_t duration) {
    return {.tokens = kFrameTokens[size] * kLatentFrames[duration],
            .frames = kLatentFrames[duration]};
}

// By pixels times frames, as the released benchmark sorts them; of equal ones the smaller picture
// first.
Ranked video_buckets() {
    constexpr std::array<std::pair<std::size_t, std::size_t>, 20> kOrder{
        {{0, 0}, {0, 1}, {1, 0}, {0, 2}, {1, 1}, {2, 0}, {0, 3}, {1, 2}, {3, 0}, {2, 1},
         {1, 3}, {3, 1}, {2, 2}, {4, 0}, {3, 2}, {2, 3}, {4, 1}, {3, 3}, {4, 2}, {4, 3}}};
    Ranked ranked;
    for (const auto& [size, duration] : kOrder) {
        ranked.push_back(video(size, duration));
    }
    return ranked;
}

DistributionPtr video_half_normal(Keys& keys) {
    const double sigma = keys.real("sigma", 1.5, kLeastSigma, kMostSigma);
    std::vector<Classes::Class> classes;
    for (std::size_t size = 0; size < kFrameTokens.size(); ++size) {
        for (std::size_t duration = 0; duration < kLatentFrames.size(); ++duration) {
            classes.push_back({video(size, duration),
                               half_normal_weight(static_cast<double>(size), sigma) *
                                   half_normal_weight(static_cast<double>(duration), sigma)});
        }
    }
    return std::make_shared<Classes>(classes);
}

// A share of images (one frame) among the videos, their sizes by Zipf's law as in the released
// benchmark.
DistributionPtr with_images(DistributionPtr videos, double share) {
    if (share == 0) {
        return videos;
    }
    Ranked images;
    for (const std::int64_t tokens : kFrameTokens) {
        images.push_back({.tokens = tokens, .frames = 1});
    }
    Keys none("images", "");
    return std::make_shared<Mixture>(
        std::vector<Mixture::Part>{{std::move(videos), 1 - share}, {zipf(images, none), share}});
}

constexpr double kMostImages = 0.999;

DistributionPtr power(Keys& keys, double alpha) {
    return std::make_shared<PowerLaw>(alpha, keys.limits(1024, 1 << 20));
}

DistributionPtr table(Keys& keys, std::string_view name) {
    const auto knots = quantile_knots(name);
    return std::make_shared<QuantileTable>(knots, keys.limits(1, knots.back().tokens));
}

}  // namespace

const std::vector<Named>& catalogue() {
    static const std::vector<Named> all{
        {{"wikipedia", "min=1,max=300280", "articles of Wikipedia: quantiles of 250,000 of them"},
         [](Keys& keys) { return table(keys, "wikipedia"); }},
        {{"wlb-llm", "min=1,max=124913", "a long-context corpus: quantiles of 99,519 documents"},
         [](Keys& keys) { return table(keys, "wlb-llm"); }},
        {{"short", "min=1024,max=1048576", "power:alpha=3: half of the tokens in the first octave"},
         [](Keys& keys) { return power(keys, 3); }},
        {{"balanced", "min=1024,max=1048576", "power:alpha=2: every octave has as many tokens"},
         [](Keys& keys) { return power(keys, 2); }},
        {{"long", "min=1024,max=1048576", "power:alpha=1: half of the tokens in the last octave"},
         [](Keys& keys) { return power(keys, 1); }},
        {{"power", "alpha=2,min=1024,max=1048576", "density tokens^-alpha between the limits"},
         [](Keys& keys) { return power(keys, keys.real("alpha", 2, 0, kMostExponent)); }},
        {{"lognormal", "mean=1024,sigma=1.5,min=128,max=8192",
          "log-normal with that mean before it is clipped to the limits"},
         [](Keys& keys) {
             const double mean = keys.real("mean", 1024, 1, 1e9);
             const double sigma = keys.real("sigma", 1.5, 0, 10);
             return std::make_shared<LogNormal>(mean, sigma, keys.limits(128, 8192));
         }},
        {{"zipf", "alpha=3,offset=5,min=1024,max=1048576",
          "lengths min, 2 min, 4 min, ... up to max; the n-th as often as (n + offset)^-alpha"},
         [](Keys& keys) { return zipf(octaves(keys), keys); }},
        {{"uniform", "min=1024,max=1048576", "the same lengths, all alike"},
         [](Keys& keys) { return uniform(octaves(keys)); }},
        {{"half-normal", "sigma=4,min=1024,max=1048576",
          "the same lengths; the n-th as often as exp(-(n-1)^2 / 2 sigma^2)"},
         [](Keys& keys) { return half_normal(octaves(keys), keys); }},
        {{"video-zipf", "alpha=3,offset=5,images=0",
          "20 video buckets by pixels x frames, Zipf's law; and a share of images"},
         [](Keys& keys) {
             const double images = keys.real("images", 0, 0, kMostImages);
             return with_images(zipf(video_buckets(), keys), images);
         }},
        {{"video-uniform", "images=0", "the same buckets, all alike"},
         [](Keys& keys) {
             const double images = keys.real("images", 0, 0, kMostImages);
             return with_images(uniform(video_buckets()), images);
         }},
        {{"video-half-normal", "sigma=1.5,images=0",
          "the same buckets, half-normal in steps of resolution and of duration"},
         [](Keys& keys) {
             const double images = keys.real("images", 0, 0, kMostImages);
             return with_images(video_half_normal(keys), images);
         }},
        {{"video-short", "", "video-zipf as it stands"},
         [](Keys& /*keys*/) {
             Keys none("video-zipf", "");
             return zipf(video_buckets(), none);
         }},
        {{"video-balanced", "", "video-half-normal as it stands"},
         [](Keys& /*keys*/) {
             Keys none("video-half-normal", "");
             return video_half_normal(none);
         }},
        {{"video-long", "", "video-uniform as it stands"},
         [](Keys& /*keys*/) { return uniform(video_buckets()); }}};
    return all;
}

}  // namespace dcp::lengths
