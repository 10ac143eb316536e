// The keys of one NAME:key=value,... text. Every key is asked for with its default and its range;
// what nobody asked for is refused at the end. ConfigErrors name the distribution and the key.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/lengths/laws.hpp"

namespace dcp::lengths {

std::string joined(const std::vector<std::string>& words);  // "a, b, c"

class Keys {
public:
    Keys(std::string name, std::string_view text);  // `text` must outlive this

    double real(const std::string& key, double fallback, double min, double max);
    std::int64_t whole(const std::string& key, std::int64_t fallback);  // 1 or more
    Limits limits(std::int64_t min, std::int64_t max);                  // keys min and max
    void finish() const;

private:
    [[noreturn]] void refuse(const std::string& what) const;

    std::string name_;
    std::map<std::string, std::string_view> values_;  // not asked for yet
    std::vector<std::string> known_;
};

}  // namespace dcp::lengths
