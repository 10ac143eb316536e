// How OpenMP's threads wait for work.
#pragma once

namespace dcp {

// The OpenMP runtime lets idle threads spin for milliseconds, which makes a run several times
// slower as soon as other programs want the processors too. Unless the user chose a policy
// (OMP_WAIT_POLICY, GOMP_SPINCOUNT), this starts the program again with sleeping threads: the
// runtime reads its environment when it is loaded, before main(). Same process, same arguments.
void let_waiting_threads_sleep(char** argv);

}  // namespace dcp
