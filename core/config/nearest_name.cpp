// The hint behind "unknown key".
#include <algorithm>
#include <string_view>

#include "core/config/schema.hpp"

namespace dcp::config {

namespace {

std::string last_part(const std::string& name) {
    return name.substr(name.rfind('.') + 1);
}

// Edits (insert, delete, replace, swap of neighbours) from one word to another.
std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
    for (std::size_t i = 0; i <= a.size(); ++i) {
        for (std::size_t j = 0; j <= b.size(); ++j) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            const std::size_t replaced = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, replaced});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
            }
        }
    }
    return d[a.size()][b.size()];
}

}  // namespace

std::string nearest_name(const std::string& name) {
    std::string nearest;
    std::size_t least = std::string::npos;
    const auto offer = [&](const std::string& known, const std::string& written,
                           const std::string& answer) {
        const std::size_t edits = edit_distance(written, known);
        if (edits <= std::max<std::size_t>(1, written.size() / 3) && edits < least) {
            least = edits;
            nearest = answer;
        }
    };
    for (const Key& key : schema()) {
        const std::string section = section_of(key.name);
        if (name.find('.') == std::string::npos) {
            offer(section, name, section);
        } else if (section == section_of(name)) {
            offer(last_part(key.name), last_part(name), key.name);
        }
    }
    for (const Key& key : schema()) {  // the right word in the wrong section
        if (nearest.empty() && last_part(key.name) == last_part(name)) {
            nearest = key.name;
        }
    }
    if (nearest.empty() && !is_section(section_of(name))) {
        for (const Key& key : schema()) {
            offer(key.name, name, key.name);
        }
    }
    return nearest;
}

}  // namespace dcp::config
