// What arrange() works on: gangs in their order and places, the pool of sequences that go to single
// ranks, and a judgement of both that packs nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/plan/arrange.hpp"
#include "core/plan/draft.hpp"
#include "core/plan/gang.hpp"
#include "core/plan/rooms.hpp"

namespace dcp::plan {

class ArrangeState {
public:
    struct Member {  // a gang; its place follows from those of the gangs before it and its choice
        std::size_t degree_index = 0;
        std::vector<std::int32_t> sequences;
        Load load;
        double seconds = 0;
        int choice = 0;  // of the groups it could have, as Placer counts them
        bool is_gone = false;
    };

    // `is_rough`: few moves follow, so none should cost much.
    ArrangeState(const Problem& problem,
                 const MicroCosts& costs,
                 Arrangement start,
                 double bound_seconds,
                 bool is_rough);

    // What moves change. `pool_load()` must follow `pool()`.
    std::vector<Member>& gangs() { return gangs_; }
    std::vector<std::int32_t>& pool() { return pool_; }
    Pool& pool_load() { return pool_load_; }

    const MicroCosts& costs() const { return costs_; }
    int num_ranks() const { return problem_.topology.ranks; }
    Load load_of_sequence(std::int32_t sequence) const {
        return load_of(problem_.sequences[static_cast<std::size_t>(sequence)]);
    }
    // False, and nothing changed, where the gang cannot hold the load within a little more than the
    // target time.
    bool reload(Member& gang, const Load& load) const;

    // The time in which all should be done.
    double target() const { return target_; }
    void set_target(double seconds);
    // What gangs are fitted to; the target sets it.
    const Ending& ending() const { return placer_.ending(); }
    void set_ending(const Ending& ending);

    // Rank-seconds that are missing for all to be done by the target time; any larger number where
    // they are more than `most`.
    double judge(double most);
    // Gangs that stay as they were at the last judge(), which was within its limit, are not placed
    // again by the next.
    void keep_places();
    // Least time in which the short sequences find room behind what the gangs do.
    double least_time();

    // The gangs with their ranks, fitted to that ending.
    Arrangement arranged(std::vector<Member> gangs,
                         std::vector<std::int32_t> short_ones,
                         const Ending& ending,
                         double seconds);

private:
    struct Placed {  // what decides about a place
        std::size_t degree_index;
        double seconds;
        int choice;
        bool operator==(const Placed&) const = default;
    };

    double spread_of_lengths() const;
    void sort_order();
    bool place_all(double most_late);
    double missing_within(double makespan) const;
    void make_rooms(double seconds);
    double squares_a_token() const;

    const Problem& problem_;
    const MicroCosts& costs_;
    double bound_;
    bool is_rough_;
    Placer placer_;
    std::vector<Member> gangs_;
    std::vector<std::size_t> order_;
    std::vector<Placed> trial_, placed_;
    std::size_t num_same_ = 0;  // gangs that trial_ and placed_ begin with
    // Before the gang at each place, and after all; those of trial_ from the first that differs.
    std::vector<Placer::State> trial_states_, states_;
    std::vector<std::int32_t> pool_;
    Pool pool_load_;
    double spread_ = 0;
    Rooms rooms_;
    double rooms_seconds_ = 0;  // what it was made for; 0: nothing yet
    double rooms_squares_ = 0;  // squared tokens a token
    double target_ = 0;
};

}  // namespace dcp::plan
