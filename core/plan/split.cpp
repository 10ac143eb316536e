#include "core/plan/split.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

namespace dcp::plan {

namespace {

constexpr int kPieceRanks = 64;  // about; measured: pieces of 32 lose 1 %, of 128 gain 0.1 %

// Degrees that a sequence is weighed at: neighbours differ by an eighth, and beyond a few times
// what holds a sequence it only costs more.
constexpr double kNextDegree = 1.125;
constexpr int kWidest = 4;
constexpr double kSlack = 1.02;  // what plans take over the bound

std::vector<std::size_t> weighed_degrees(const MicroCosts& costs) {
    std::vector<std::size_t> chosen;
    for (std::size_t index = 0; index < costs.num_degrees(); ++index) {
        if (chosen.empty() || index + 1 == costs.num_degrees() ||
            costs.degree(index) >= kNextDegree * costs.degree(chosen.back())) {
            chosen.push_back(index);
        }
    }
    return chosen;
}

// Rank-seconds of a sequence on the degree where it costs least of those that are quick enough, its
// share of a micro-batch's fixed cost included.
double least_area(const MicroCosts& costs,
                  const std::vector<std::size_t>& degrees,
                  const Load& load,
                  double most_seconds) {
    constexpr double kNever = std::numeric_limits<double>::infinity();
    double least = kNever;
    double quickest = kNever;
    double quickest_area = kNever;
    int widest = std::numeric_limits<int>::max();
    for (const std::size_t index : degrees) {
        const int degree = costs.degree(index);
        const MicroCosts::Level* level = costs.level(index, load.tokens);
        if (degree > widest) {
            break;
        }
        if (level == nullptr) {
            continue;
        }
        const auto tokens = static_cast<double>(load.tokens);
        const double share = tokens / static_cast<double>(costs.most_tokens(index));
        const double work =
            level->token_seconds * tokens + level->squared_seconds * load.squared_tokens;
        const double area = (level->fixed_seconds * share + work) * degree;
        if (const double seconds = level->fixed_seconds + work; seconds > most_seconds) {
            if (seconds < quickest) {
                quickest = seconds;
                quickest_area = area;
            }
            continue;
        }
        least = std::min(least, area);
        widest = std::min(widest, kWidest * degree);
    }
    return least < kNever ? least : quickest_area;
}

// That holds the sequence within so many seconds; that holds it at all where none is so quick.
int least_degree(const MicroCosts& costs, const Load& load, double most_seconds) {
    for (std::size_t index = 0; index < costs.num_degrees(); ++index) {
        if (costs.seconds(index, load) <= most_seconds) {
            return costs.degree(index);
        }
    }
    std::size_t index = 0;
    while (index + 1 < costs.num_degrees() && costs.most_tokens(index) < load.tokens) {
        ++index;
    }
    return costs.degree(index);
}

// `problem`: without sequences.
Piece piece_of(const Problem& problem, int first_rank, int ranks) {
    Piece piece{.problem = problem, .sequences = {}, .first_rank = first_rank};
    piece.problem.topology.ranks = ranks;
    std::erase_if(piece.problem.degrees, [ranks](int degree) { return degree > ranks; });
    std::vector<double>& speeds = piece.problem.topology.speeds;
    if (!speeds.empty()) {
        speeds = {problem.topology.speeds.begin() + first_rank,
                  problem.topology.speeds.begin() + first_rank + ranks};
    }
    return piece;
}

double speed_of(const Piece& piece) {
    const std::vector<double>& speeds = piece.problem.topology.speeds;
    return speeds.empty() ? piece.problem.topology.ranks
                          : std::accumulate(speeds.begin(), speeds.end(), 0.0);
}

}  // namespace

std::vector<Piece> split(const Problem& problem,
                         const MicroCosts& costs,
                         double bound_seconds,
                         PieceWidth width) {
    const Topology& topology = problem.topology;
    if (topology.ranks < 2 * kPieceRanks) {
        return {};
    }
    Load longest;
    for (const Sequence& sequence : problem.sequences) {
        if (sequence.tokens > longest.tokens) {
            longest = load_of(sequence);
        }
    }
    const int nodes = std::max(1, kPieceRanks / topology.ranks_per_node);
    int ranks = nodes * topology.ranks_per_node;
    const double most_seconds = width == PieceWidth::kHolding
                                    ? std::numeric_limits<double>::max()
                                    : kSlack * bound_seconds * topology.fastest_pace();
    const int widest = least_degree(costs, longest, most_seconds);
    while (ranks < topology.ranks && 2 * widest > ranks) {
        ranks *= 2;
    }
    std::vector<Piece> pieces;
    const int count = topology.ranks / ranks;  // the last one takes what is left over
    if (count < 2) {
        return pieces;
    }
    Problem bare = problem;
    bare.sequences.clear();
    for (int i = 0; i < count; ++i) {
        pieces.push_back(
            piece_of(bare, i * ranks, i + 1 < count ? ranks : topology.ranks - i * ranks));
    }
    std::vector<std::pair<double, std::int32_t>> by_area;
    by_area.reserve(problem.sequences.size());
    const std::vector<std::size_t> degrees = weighed_degrees(costs);
    for (std::size_t i = 0; i < problem.sequences.size(); ++i) {
        by_area.emplace_back(
            -least_area(costs, degrees, load_of(problem.sequences[i]), kSlack * bound_seconds),
            static_cast<std::int32_t>(i));
    }
    std::sort(by_area.begin(), by_area.end());
    using Entry = std::pair<double, std::size_t>;  // (work a rank, piece): the least is served
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        queue.emplace(0.0, i);
    }
    for (const auto& [minus_area, sequence] : by_area) {
        const auto [work, place] = queue.top();
        queue.pop();
        Piece& piece = pieces[place];
        piece.sequences.push_back(sequence);
        piece.problem.sequences.push_back(problem.sequences[static_cast<std::size_t>(sequence)]);
        queue.emplace(work - minus_area / speed_of(piece), place);
    }
    return pieces;
}

void open_whole(const Piece& piece, const Draft& draft, Draft& whole) {
    for (const bool singles : {false, true}) {
        for (const Bin& bin : draft.bins()) {
            if (bin.sequences.empty() || (bin.world_ranks.size() == 1) != singles) {
                continue;
            }
            std::vector<int> world_ranks = bin.world_ranks;
            for (int& rank : world_ranks) {
                rank += piece.first_rank;
            }
            std::vector<std::int32_t> sequences = bin.sequences;
            for (std::int32_t& sequence : sequences) {
                sequence = piece.sequences[static_cast<std::size_t>(sequence)];
            }
            // The degrees of a piece are those of the whole, up to its ranks.
            whole.open(bin.degree_index, std::move(world_ranks), std::move(sequences));
        }
    }
}

}  // namespace dcp::plan
