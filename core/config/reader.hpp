// Strict reading of the configuration of `dcp train`: an unknown or repeated key, a wrong type, a
// value out of range and keys that contradict each other are ConfigErrors that name file, line,
// key, value and what is allowed. An override (`--set`) wins over the file, the file over the
// default.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/config/config.hpp"

namespace dcp::config {

// Where each value came from: "run.yaml:12", "--set", or "default" with what it follows from.
using Provenance = std::map<std::string, std::string>;

struct Reading {
    Config config;
    Provenance provenance;  // an entry for every key of the schema
};

// `overrides` are texts like "optimizer.lr=2e-5"; of two for one key the later wins.
Reading read_config(const std::string& path, const std::vector<std::string>& overrides = {});

// The same for YAML in memory; `file` is only what messages call it.
Reading parse_config(const std::string& text,
                     const std::string& file,
                     const std::vector<std::string>& overrides = {});

// Every key with its value, as YAML that reads back to the same configuration.
std::string to_yaml(const Config& config);

// The same with a comment behind each value that says where it came from.
std::string print(const Config& config, const Provenance& provenance);

}  // namespace dcp::config
