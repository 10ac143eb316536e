// One map of a YAML file that is read strictly: every key is taken once, and finish() refuses what
// nobody asked for. Messages name file, line and key. For the readers in this folder: the YAML
// library shows here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "core/config/value.hpp"

namespace dcp::config {

// ConfigError for what is not YAML. `file` is only what messages call it.
YAML::Node load_yaml(const std::string& text, const std::string& file);
class Section {
public:
    // `prefix` is what the map's keys are called by, such as "time."; empty at the top, which then
    // is a `what`.
    Section(const std::string& file, std::string prefix, const YAML::Node& map, const char* what);

    bool has(const std::string& key) const { return entries_.contains(key); }
    // ConfigError where it is missing. Taken keys are forgotten.
    YAML::Node take(const std::string& key);
    Section section(const std::string& key);
    // Whole numbers to maps, such as {64: {...}, 128: {...}}.
    std::map<int, Section> sections(const std::string& key, int most);

    double real(const std::string& key, const std::optional<double>& fallback = std::nullopt);
    double positive(const std::string& key);
    int whole(const std::string& key, int most);
    bool flag(const std::string& key);
    std::string text(const std::string& key);
    // {whole number: number, ...}, where numbers are called `name` in messages; nothing when the
    // key is absent.
    std::map<int, double> table(const std::string& key, const char* name, int least, bool may_be_0);
    // `any` (an empty list) or rising whole numbers.
    std::vector<int> degrees(const std::string& key);

    [[noreturn]] void refuse(const std::string& key, const char* expected) const;
    void finish(const char* known) const;

private:
    std::string file_;
    std::string prefix_;
    std::string place_;
    std::map<std::string, YAML::Node> entries_;
    std::map<std::string, std::string> places_;
};

}  // namespace dcp::config
