// Which library carries this process's messages, for those who must know whether it is still the
// same: what was measured with one does not hold for another.
#pragma once

#include <string>
#include <string_view>

namespace dcp::comm {

// "Open MPI v4.1.4". Empty where no messages are sent: in a world of one rank.
const std::string& message_library();

// Called once, by what starts the library (MpiSession), before there are other threads.
void set_message_library(std::string name);

// Name and version out of what a library says of itself, which may go on about packages and build
// dates: its beginning up to a comma or the end of a line, runs of blanks as one.
std::string library_name(std::string_view description);

}  // namespace dcp::comm
