// Distributions of lengths: golden values (the same on every machine), moments and quantiles
// against closed forms and against what is known of the data sets, and every error message.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "core/base/errors.hpp"
#include "core/lengths/distribution.hpp"
#include "core/lengths/portable_math.hpp"

using namespace dcp::lengths;

namespace {

std::vector<std::int64_t> drawn(const std::string& text,
                                std::int64_t count,
                                std::uint64_t seed = 7) {
    const DistributionPtr distribution = parse_distribution(text);
    std::vector<std::int64_t> tokens;
    for (std::int64_t i = 0; i < count; ++i) {
        tokens.push_back(distribution->at(seed, i).tokens);
    }
    return tokens;
}

double mean(const std::vector<std::int64_t>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::int64_t quantile(std::vector<std::int64_t> values, double share) {
    std::sort(values.begin(), values.end());
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

double share_below(const std::vector<std::int64_t>& values, std::int64_t limit) {
    return static_cast<double>(std::count_if(values.begin(), values.end(),
                                             [=](std::int64_t value) { return value < limit; })) /
           static_cast<double>(values.size());
}

std::string message_of(const std::string& text) {
    try {
        parse_distribution(text);
    } catch (const dcp::ConfigError& error) {
        return error.what();
    }
    return "accepted";
}

}  // namespace

TEST_CASE("exp and log agree with the library to the last bits", "[unit]") {
    for (double x = 1e-9; x < 1e12; x *= 1.37) {
        CHECK(std::abs(portable_log(x) - std::log(x)) <=
              4e-16 * std::max(1.0, std::abs(std::log(x))));
    }
    for (double x = -690; x < 690; x += 1.713) {
        CHECK(std::abs(portable_exp(x) / std::exp(x) - 1) <= 1e-15);
    }
    CHECK(portable_log(1.0) == 0);
    CHECK(portable_exp(0.0) == 1);
}

TEST_CASE("what is drawn is the same on every machine", "[unit]") {
    const std::map<std::string, std::vector<std::int64_t>> golden{
        {"wikipedia", {86, 4722, 591, 411, 492, 499, 5694, 118}},
        {"wlb-llm", {621, 6199, 4294, 3553, 3953, 3985, 6580, 1241}},
        {"short", {1077, 5398, 1774, 1529, 1648, 1659, 6191, 1140}},
        {"long", {1993, 817164, 104201, 46879, 72386, 74898, 867465, 3912}},
        {"power:alpha=1.5", {1245, 234372, 8174, 4724, 6247, 6397, 307033, 1550}},
        {"lognormal", {231, 512, 4272, 380, 4387, 689, 862, 148}},
        {"zipf", {1024, 524288, 8192, 4096, 4096, 4096, 524288, 1024}},
        {"half-normal", {1024, 262144, 16384, 8192, 8192, 8192, 262144, 2048}},
        {"uniform", {2048, 1048576, 131072, 65536, 65536, 65536, 1048576, 4096}},
        {"video-short", {2160, 54000, 8640, 6075, 8640, 8640, 97200, 2160}},
        {"video-balanced", {2160, 48600, 12150, 6075, 12150, 12150, 48600, 4320}},
        {"video-zipf:images=0.5", {2160, 144, 405, 144, 405, 1620, 920, 2160}},
        {"wikipedia@0.7+lognormal:sigma=2@0.3", {78, 128, 246, 76, 248, 1095, 492, 119}},
        {"short~8~long", {1064, 1057, 1327, 1061, 1330, 263479, 1764, 3951}}};
    for (const auto& [text, tokens] : golden) {
        CAPTURE(text);
        CHECK(drawn(text, 8) == tokens);
    }
}

TEST_CASE("a draw depends on seed and position alone", "[unit]") {
    const DistributionPtr distribution = parse_distribution("lognormal:max=100000");
    const auto in_order = drawn("lognormal:max=100000", 100);
    for (std::int64_t i = 99; i >= 0; --i) {
        CHECK(distribution->at(7, i).tokens == in_order[static_cast<std::size_t>(i)]);
    }
    CHECK(drawn("lognormal:max=100000", 100, 8) != in_order);
}

TEST_CASE("quantile tables have the moments of the data they stand for", "[unit]") {
    const auto wikipedia = drawn("wikipedia", 200'000);
    CHECK(mean(wikipedia) == Approx(1005).epsilon(0.02));
    CHECK(quantile(wikipedia, 0.5) == Approx(347).epsilon(0.02));
    CHECK(quantile(wikipedia, 0.9) == Approx(2112).epsilon(0.03));
    CHECK(quantile(wikipedia, 0.99) == Approx(10921).epsilon(0.05));
    CHECK(share_below(wikipedia, 512) == Approx(0.6262).epsilon(0.01));
    const auto wlb = drawn("wlb-llm", 200'000);
    CHECK(mean(wlb) == Approx(3962).epsilon(0.02));
    CHECK(quantile(wlb, 0.5) == Approx(3227).epsilon(0.02));
    CHECK(quantile(wlb, 0.99) == Approx(26070).epsilon(0.08));
    CHECK(quantile(wlb, 0.999) == Approx(119836).epsilon(0.02));
    CHECK(*std::max_element(wlb.begin(), wlb.end()) <= 124913);
    const auto cut = drawn("wikipedia:min=100,max=5000", 20'000);
    CHECK(*std::min_element(cut.begin(), cut.end()) == 100);
    CHECK(*std::max_element(cut.begin(), cut.end()) == 5000);
}

TEST_CASE("power laws share their tokens over octaves as their exponent says", "[unit]") {
    for (const auto& [name, growth] :
         std::map<std::string, double>{{"short", 0.5}, {"balanced", 1}, {"long", 2}}) {
        CAPTURE(name);
        std::vector<double> tokens(10, 0);
        for (const std::int64_t length : drawn(name, 300'000)) {
            REQUIRE(length >= 1024);
            REQUIRE(length <= 1 << 20);
            const auto octave = static_cast<std::size_t>(
                std::min(9.0, std::floor(std::log2(static_cast<double>(length) / 1024))));
            tokens[octave] += static_cast<double>(length);
        }
        for (std::size_t octave = 1; octave < 4; ++octave) {
            CHECK(tokens[octave] / tokens[octave - 1] == Approx(growth).epsilon(0.08));
        }
    }
}

TEST_CASE("a log-normal law has its mean and its spread", "[unit]") {
    const auto values = drawn("lognormal:mean=5000,sigma=0.8,min=1,max=1000000000", 200'000);
    CHECK(mean(values) == Approx(5000).epsilon(0.02));
    double sum = 0;
    double squares = 0;
    for (const std::int64_t value : values) {
        const double logarithm = std::log(static_cast<double>(value));
        sum += logarithm;
        squares += logarithm * logarithm;
    }
    const double count = 200'000;
    CHECK(std::sqrt(squares / count - sum * sum / count / count) == Approx(0.8).epsilon(0.01));
    CHECK(sum / count == Approx(std::log(5000) - 0.32).epsilon(0.002));
}

TEST_CASE("classes come as often as the released benchmark's", "[unit]") {
    std::map<std::string, int> counts;
    constexpr int kDraws = 200'000;
    const DistributionPtr zipf = parse_distribution("video-zipf");
    for (int i = 0; i < kDraws; ++i) {
        ++counts[to_string(zipf->at(3, i))];
    }
    CHECK(counts.size() == 20);
    const std::map<std::string, double> expected{{"15x144", .2963},  {"30x144", .1866},
                                                 {"15x405", .1250},  {"60x144", .0878},
                                                 {"15x1620", .0233}, {"120x3600", .0041}};
    for (const auto& [length, probability] : expected) {
        CAPTURE(length);
        CHECK(counts[length] / double{kDraws} == Approx(probability).epsilon(0.08));
    }
    const auto uniform = drawn("uniform", 110'000);
    for (std::int64_t tokens = 1024; tokens <= 1 << 20; tokens *= 2) {
        CHECK(std::count(uniform.begin(), uniform.end(), tokens) == Approx(10'000).epsilon(0.05));
    }
    const auto half = drawn("half-normal:sigma=2", 100'000);
    const auto first = static_cast<double>(std::count(half.begin(), half.end(), 1024));
    const auto third = static_cast<double>(std::count(half.begin(), half.end(), 4096));
    CHECK(third / first == Approx(std::exp(-0.5)).epsilon(0.03));
}

TEST_CASE("images, mixtures and drifts draw from their parts in the right shares", "[unit]") {
    const DistributionPtr mixed = parse_distribution("video-uniform:images=0.5");
    CHECK(mixed->is_video());
    int images = 0;
    for (int i = 0; i < 20'000; ++i) {
        images += mixed->at(1, i).frames == 1 ? 1 : 0;
    }
    CHECK(images == Approx(10'000).epsilon(0.03));

    const auto halves = drawn("zipf:min=10,max=10@3+zipf:min=99,max=99@1", 40'000);
    CHECK(share_below(halves, 50) == Approx(0.75).epsilon(0.02));

    const auto drift = drawn("zipf:min=10,max=10~1000~zipf:min=99,max=99", 3000);
    const auto early = std::vector<std::int64_t>(drift.begin(), drift.begin() + 200);
    const auto middle = std::vector<std::int64_t>(drift.begin() + 400, drift.begin() + 600);
    const auto late = std::vector<std::int64_t>(drift.begin() + 1000, drift.end());
    CHECK(share_below(early, 50) > 0.8);
    CHECK(share_below(middle, 50) == Approx(0.5).margin(0.12));
    CHECK(share_below(late, 50) == 0);
}

TEST_CASE("the longest is known before anything is drawn", "[unit]") {
    CHECK(parse_distribution("wikipedia")->longest().tokens == 300280);
    CHECK(parse_distribution("wikipedia:max=8192")->longest().tokens == 8192);
    CHECK(parse_distribution("short")->longest().tokens == 1 << 20);
    CHECK(to_string(parse_distribution("video-short")->longest()) == "120x3600");
    CHECK(parse_distribution("short:max=4096~10~long:max=9999")->longest().tokens == 9999);
}

TEST_CASE("every name of the catalogue can be parsed with the keys it lists", "[unit]") {
    for (const DistributionInfo& info : known_distributions()) {
        CAPTURE(info.name);
        const std::string with_keys = info.name + (info.keys.empty() ? "" : ":" + info.keys);
        CHECK(drawn(info.name, 20) == drawn(with_keys, 20));
    }
}

TEST_CASE("what is wrong with a distribution is said", "[unit]") {
    CHECK(message_of("wikpedia").starts_with("no distribution 'wikpedia'; there are wikipedia, "));
    CHECK(message_of("short:alpha=2") ==
          "distribution short: unknown key 'alpha'; known: min, max");
    CHECK(message_of("video-long:x=1") == "distribution video-long: unknown key 'x'; known: none");
    CHECK(message_of("power:alpha") ==
          "distribution power: 'alpha' is not KEY=VALUE (write power:key=value,key=value)");
    CHECK(message_of("power:alpha=1,alpha=2") ==
          "distribution power: repeated key 'alpha'; keep one of them");
    CHECK(message_of("power:alpha=x") ==
          "distribution power: alpha=x must be a number from 0 to 20");
    CHECK(message_of("power:min=0") ==
          "distribution power: min=0 must be a whole number from 1 to 1099511627776");
    CHECK(message_of("power:min=9,max=8") == "distribution power: min=9 is above max=8");
    CHECK(message_of("short@1+long").find("'long': needs a weight above 0 behind @") !=
          std::string::npos);
    CHECK(message_of("short@1+").find("missing beside a '+'") != std::string::npos);
    CHECK(message_of("short@-1").find("needs a weight above 0") != std::string::npos);
    CHECK(message_of("short~long").find("write A~20000~B") != std::string::npos);
    CHECK(message_of("short~0~long").find("write A~20000~B") != std::string::npos);
    CHECK(message_of("short@1+video-long@1").find("do not mix") != std::string::npos);
    CHECK(message_of("short~5~video-long").find("do not mix") != std::string::npos);
    CHECK(message_of("").starts_with("no distribution ''"));
}
