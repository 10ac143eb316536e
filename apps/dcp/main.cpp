// The one executable. Parses the command line, runs a subcommand, maps errors to exit codes.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/dcp/commands.hpp"
#include "apps/dcp/data_commands.hpp"
#include "apps/dcp/manual_page.hpp"
#include "apps/dcp/option_checks.hpp"
#include "apps/dcp/signal_thread.hpp"
#include "apps/dcp/waiting_threads.hpp"
#include "comm/launch.hpp"
#include "core/base/errors.hpp"

namespace {

constexpr const char* kFooter = R"(Examples:
  dcp data import --out data/manpages /usr/share/man/man1
  dcp train configs/quickstart.yaml --set run.iterations=500
  dcp eval --weights runs/first/weights --dataset data/manpages
  dcp export --run runs/first --out exported
  dcp simulate configs/simulate/first.yaml

Exit status:
  0  done
  2  the command line, the configuration, the data or the weights are wrong: fix them, run again
  3  the input was fine but the run could not go on: disk full, numbers not finite, out of memory

`dcp COMMAND --help` tells more about a command; docs/ has the formats and the configuration keys.)";

// Also on the ranks of a launcher, before they can talk to each other. What is wrong on all the
// first says, and the launcher ends the others when it fails; what only another has to say comes
// late.
int report(const std::string& message, int exit_code, bool is_shared = false) {
    constexpr std::chrono::seconds kFirstSpeaks{2};
    if (dcp::comm::read_launcher_environment().rank > 0) {
        std::this_thread::sleep_for(kFirstSpeaks);
        if (is_shared) {
            return exit_code;
        }
    }
    fmt::print(stderr, "dcp: error: {}\n", message);
    return exit_code;
}

// The library would only say "A subcommand is required".
std::string missing_command(const CLI::App& app) {
    const CLI::App* parsed = &app;
    std::string name = app.get_name();
    while (!parsed->get_subcommands().empty()) {
        parsed = parsed->get_subcommands().front();
        name += " " + parsed->get_name();
    }
    std::string known;
    for (const CLI::App* command : parsed->get_subcommands({})) {
        known += (known.empty() ? "" : ", ") + command->get_name();
    }
    const std::vector<std::string> rest = app.remaining(/*recurse=*/true);
    if (rest.empty()) {
        return fmt::format("{} needs a command: {}", name, known);
    }
    return rest.front().starts_with('-')
               ? fmt::format("{} has no option '{}'", name, rest.front())
               : fmt::format("{} has no command '{}'; there are {}", name, rest.front(), known);
}

int run(int argc, char** argv) {
    CLI::App app("Train transformers on sequences of very different lengths", "dcp");
    app.formatter(std::make_shared<dcp::ManualPage>());  // of all commands below too
    app.footer(kFooter);
    app.require_subcommand(1);
    app.set_version_flag("--version", dcp::describe_version, "Print version and what it runs on");
    dcp::add_train_command(app);
    dcp::add_profile_command(app);
    dcp::add_eval_command(app);
    dcp::add_export_command(app);
    dcp::add_plan_command(app);
    dcp::add_simulate_command(app);
    dcp::add_data_commands(app);
    dcp::refuse_empty_texts(app);
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& help) {
        return app.exit(help);
    } catch (const CLI::ParseError& error) {
        const bool no_command = error.get_name() == "RequiredError" &&
                                std::string(error.what()) == "A subcommand is required";
        const std::string message = no_command ? missing_command(app) : error.what();
        return report(message + " (see `dcp --help`)", dcp::kExitBadInput);
    }
    return dcp::kExitDone;
}

// Output that did not arrive (a full disk behind a redirection) is no success.
int finish_output(int exit_code) {
    const bool is_written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    if (exit_code == dcp::kExitDone && !is_written) {
        return report("standard output: cannot write everything; is the disk full?",
                      dcp::kExitFailedRun);
    }
    return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
    dcp::let_waiting_threads_sleep(argv);
    // A file that may not grow further fails to be written, and that is reported, and cleaned up.
    (void)std::signal(SIGXFSZ, SIG_IGN);
    const dcp::SignalThread signals;
    try {
        return finish_output(run(argc, argv));
    } catch (const dcp::Error& error) {
        return report(error.what(), error.exit_code(), error.is_shared());
    } catch (const std::bad_alloc&) {
        return report("the machine has no memory left", dcp::kExitFailedRun);
    } catch (const std::exception& error) {
        return report(error.what(), dcp::kExitFailedRun);
    }
}
