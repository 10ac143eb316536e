#include "comm/mpi/mpi_session.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <new>
#include <numeric>
#include <thread>

#include <mpi.h>

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include "comm/message_library.hpp"
#include "comm/mpi/mpi_check.hpp"
#include "comm/mpi/mpi_communicator.hpp"
#include "comm/mpi/progress.hpp"
#include "comm/topology.hpp"
#include "core/base/errors.hpp"

namespace dcp::comm {

namespace {

constexpr const char* kWorld = "world";
constexpr const char* kNode = "ranks of this node";

// MPI handles that must be given back on every way out.
struct OwnedComm {
    MPI_Comm handle = MPI_COMM_NULL;
    OwnedComm() = default;
    ~OwnedComm() {
        if (handle != MPI_COMM_NULL) {
            MPI_Comm_free(&handle);
        }
    }
    OwnedComm(const OwnedComm&) = delete;
    OwnedComm& operator=(const OwnedComm&) = delete;
    OwnedComm(OwnedComm&&) = delete;
    OwnedComm& operator=(OwnedComm&&) = delete;
};

struct OwnedGroup {
    MPI_Group handle = MPI_GROUP_NULL;
    OwnedGroup() = default;
    ~OwnedGroup() {
        if (handle != MPI_GROUP_NULL) {
            MPI_Group_free(&handle);
        }
    }
    OwnedGroup(const OwnedGroup&) = delete;
    OwnedGroup& operator=(const OwnedGroup&) = delete;
    OwnedGroup(OwnedGroup&&) = delete;
    OwnedGroup& operator=(OwnedGroup&&) = delete;
};

// Ordered by world rank.
void split_by_node(int rank, OwnedComm& node) {
    check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL,
                                  &node.handle),
              "MPI_Comm_split_type", kWorld);
}

}  // namespace

class MpiSession::State final : public GroupFactory {
public:
    explicit State(const MpiLimits& limits)
        : limits_(limits),
          launcher_(read_launcher_environment()),
          exceptions_at_start_(std::uncaught_exceptions()) {
        start();
    }
    ~State() override {
        progress_.stop();
        if (std::uncaught_exceptions() > exceptions_at_start_) {
            fmt::print(stderr, "dcp: rank {}: an error leaves MPI without MPI_Finalize\n", rank_);
        } else if (const int code = MPI_Finalize(); code != MPI_SUCCESS) {
            fmt::print(stderr, "dcp: rank {}: MPI_Finalize failed with code {}\n", rank_, code);
        }
    }
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    State(State&&) = delete;
    State& operator=(State&&) = delete;

    std::unique_ptr<Communicator> make_world(const MpiLimits& limits);
    std::unique_ptr<Communicator> make_world() { return make_world(limits_); }
    std::unique_ptr<Communicator> make_group(std::span<const int> world_ranks,
                                             std::uint64_t creation) override;
    std::int64_t communicator_bytes(int group_size) const override;
    int node_key() const;
    int ranks_on_node() const;
    int processors() const;

    int rank() const { return rank_; }
    int size() const { return size_; }
    const LauncherEnvironment& launcher() const { return launcher_; }

private:
    void start();

    MpiLimits limits_;
    LauncherEnvironment launcher_;
    int exceptions_at_start_;
    int rank_ = 0;
    int size_ = 1;
    ProgressThread progress_;
};

void MpiSession::State::start() {
    int is_started = 0;
    MPI_Initialized(&is_started);
    if (is_started != 0) {
        throw ShapeError("a process has one MpiSession, made once");
    }
    // Ranks that wait must give the processor away: the progress thread, and often other ranks,
    // compute on the same cores, and Open MPI only notices the latter (mpirun sets 0 when it sees
    // as many slots as ranks). Without this a small all-to-all takes milliseconds.
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 1);  // NOLINT(concurrency-mt-unsafe): no thread yet
    int level = MPI_THREAD_SINGLE;
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread",
              kWorld);
    check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler",
              kWorld);
    check_mpi(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler",
              kWorld);
    check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank", kWorld);
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size", kWorld);
    if (level < MPI_THREAD_MULTIPLE) {
        MPI_Finalize();
        throw UnsupportedError(fmt::format(
            "this MPI grants thread level {} of {} (MPI_THREAD_MULTIPLE), which the communication "
            "thread needs: use an MPI built with thread support",
            level, int{MPI_THREAD_MULTIPLE}));
    }
    if (size_ > 1) {
        std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> description{};
        int length = 0;
        check_mpi(MPI_Get_library_version(description.data(), &length), "MPI_Get_library_version",
                  kWorld);
        set_message_library(library_name({description.data(), static_cast<std::size_t>(length)}));
    }
}

std::unique_ptr<Communicator> MpiSession::State::make_world(const MpiLimits& limits) {
    MPI_Comm copy = MPI_COMM_NULL;
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &copy), "MPI_Comm_dup", kWorld);
    std::vector<int> ranks(static_cast<std::size_t>(size_));
    std::iota(ranks.begin(), ranks.end(), 0);
    return std::make_unique<MpiCommunicator>(copy, std::move(ranks), rank_, limits, progress_);
}

std::unique_ptr<Communicator> MpiSession::State::make_group(std::span<const int> world_ranks,
                                                            std::uint64_t creation) {
    // Below the smallest MPI_TAG_UB that the standard allows; two creations that a pair of ranks
    // has under way at once never differ by as much.
    constexpr std::uint64_t kNumTags = 32767;
    const std::string group_name =
        fmt::format("group of world ranks {}", describe_ranks(world_ranks));
    OwnedGroup world;
    OwnedGroup group;
    MPI_Comm made = MPI_COMM_NULL;
    check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &world.handle), "MPI_Comm_group", group_name);
    check_mpi(MPI_Group_incl(world.handle, static_cast<int>(world_ranks.size()), world_ranks.data(),
                             &group.handle),
              "MPI_Group_incl", group_name);
    check_mpi(MPI_Comm_create_group(MPI_COMM_WORLD, group.handle,
                                    static_cast<int>(creation % kNumTags), &made),
              "MPI_Comm_create_group", group_name);
    int group_rank = 0;
    check_mpi(MPI_Comm_rank(made, &group_rank), "MPI_Comm_rank", group_name);
    return std::make_unique<MpiCommunicator>(
        made, std::vector<int>(world_ranks.begin(), world_ranks.end()), group_rank, limits_,
        progress_);
}

std::int64_t MpiSession::State::communicator_bytes(int group_size) const {
    // Open MPI 4.1.4: 9 KiB of resident memory for a group of three, after a barrier.
    constexpr std::int64_t kFixed = 16 << 10;
    constexpr std::int64_t kPerMember = 1 << 10;
    return kFixed + kPerMember * group_size;
}

int MpiSession::State::node_key() const {
    OwnedComm node;
    split_by_node(rank_, node);
    int key = rank_;  // the node's first rank is its lowest
    check_mpi(MPI_Bcast(&key, 1, MPI_INT, 0, node.handle), "MPI_Bcast", kNode);
    const std::optional<int> fake = fake_ranks_per_node();
    return fake ? rank_ / *fake : key;
}

int MpiSession::State::ranks_on_node() const {
    OwnedComm node;
    split_by_node(rank_, node);
    int ranks = 0;
    check_mpi(MPI_Comm_size(node.handle, &ranks), "MPI_Comm_size", kNode);
    return ranks;
}

int MpiSession::State::processors() const {
    OwnedComm node;
    split_by_node(rank_, node);
    int ranks = 0;
    check_mpi(MPI_Comm_size(node.handle, &ranks), "MPI_Comm_size", kNode);
    cpu_set_t mine;
    CPU_ZERO(&mine);
    const bool is_known = sched_getaffinity(0, sizeof(mine), &mine) == 0;
    std::vector<cpu_set_t> masks(static_cast<std::size_t>(ranks));
    check_mpi(MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, masks.data(), sizeof(mine), MPI_BYTE,
                            node.handle),
              "MPI_Allgather", kNode);
    double share = is_known ? 0 : 1;
    for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
        const auto may_use = [&](const cpu_set_t& mask) {
            return CPU_ISSET(static_cast<std::size_t>(processor), &mask);
        };
        if (may_use(mine)) {
            share += 1.0 / static_cast<double>(std::count_if(masks.begin(), masks.end(), may_use));
        }
    }
    constexpr double kRounding = 1e-6;  // thirds that should add up to one
    return std::max(1, static_cast<int>(share + kRounding));
}

MpiSession::MpiSession(const MpiLimits& limits) : state_(std::make_unique<State>(limits)) {}
MpiSession::~MpiSession() = default;
MpiSession::MpiSession(MpiSession&&) noexcept = default;

int MpiSession::world_rank() const {
    return state_->rank();
}
int MpiSession::world_size() const {
    return state_->size();
}
const LauncherEnvironment& MpiSession::launcher() const {
    return state_->launcher();
}
std::unique_ptr<Communicator> MpiSession::make_world() {
    return state_->make_world();
}
std::unique_ptr<Communicator> MpiSession::make_world(const MpiLimits& limits) {
    return state_->make_world(limits);
}
GroupFactory& MpiSession::group_factory() {
    return *state_;
}
int MpiSession::node_key() {
    return state_->node_key();
}
int MpiSession::ranks_on_node() {
    return state_->ranks_on_node();
}
int MpiSession::processors() {
    return state_->processors();
}

void MpiSession::abort(const std::exception& error) noexcept {
    constexpr unsigned kAbortSeconds = 5;  // then the system ends us, and the launcher the others
    constexpr std::chrono::seconds kListenerSeconds{2};  // for rank 0 to speak for all
    const auto* known = dynamic_cast<const Error*>(&error);
    const int code = known != nullptr ? known->exit_code() : kExitFailedRun;
    (void)std::signal(SIGALRM, SIG_DFL);
    alarm(kAbortSeconds);
    const bool is_shared = known != nullptr && known->is_shared();
    // Processes that each see a world of one are all rank 0 there.
    const bool is_first = world_rank() == 0 && launcher().rank == 0;
    if (is_shared && !is_first) {
        std::this_thread::sleep_for(
            kListenerSeconds);  // the end, unless this rank is alone with it
    }
    const std::string who =
        world_size() == 1 || (is_shared && is_first) ? "" : fmt::format("rank {}: ", world_rank());
    const bool is_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
    fmt::print(stderr, "dcp: error: {}{}\n", who,
               is_memory ? "the machine has no memory left" : error.what());
    MPI_Abort(MPI_COMM_WORLD, code);
    _exit(code);
}

}  // namespace dcp::comm
