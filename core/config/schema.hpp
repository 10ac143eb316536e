// Every key of the configuration, once: name, place in Config, allowed values, meaning. The reader,
// the printer, the hints for misspelt keys and the test of docs/configuration.md all walk this
// table, so a new key is one row in schema.cpp.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/config/config.hpp"
#include "core/config/value.hpp"

namespace dcp::config {

struct Key {
    std::string name;     // "model.hidden"
    std::string allowed;  // "a whole number from 1 to 1048576": completes "expected ..."
    std::string meaning;
    bool is_number = false;  // a quoted number deserves a hint
    // Stores the value, or returns false and leaves the configuration alone.
    std::function<bool(const Value&, Config&)> read;
    std::function<std::string(const Config&)> print;  // YAML that `read` takes back
};

std::span<const Key> schema();                   // in the order of the sections and fields
const Key* find_key(const std::string& name);    // null if there is none
bool is_section(const std::string& name);        // "model"
std::string section_of(const std::string& key);  // "model" of "model.hidden"; else the key

// What a person who wrote `name` most likely meant, a key or a section; empty if nothing is near.
std::string nearest_name(const std::string& name);

}  // namespace dcp::config
