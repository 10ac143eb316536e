"""Prints what the plans of a run were like, from its metrics.jsonl: steps by SP degree (how many ranks
share a micro-batch), the imbalance ratio (share of the time that ranks idle), and what planning cost.
"""

import json
import statistics
import sys
from collections import Counter

BAR = 40


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        iterations = [json.loads(line) for line in file]
    if not iterations:
        sys.exit(f"{sys.argv[1]} has no iteration")
    steps = Counter()
    for iteration in iterations:
        for degree, count in iteration["steps_by_degree"].items():
            steps[int(degree)] += count
    print(f"plans of {len(iterations)} iterations, {sum(steps.values())} steps:")
    for degree, count in sorted(steps.items()):
        bar = "#" * max(1, round(BAR * count / max(steps.values())))
        print(f"  on {degree} rank{'s' if degree > 1 else ' '} {count:6}  {bar}")

    def mean(key):
        return statistics.mean(iteration[key] for iteration in iterations)

    print(f"  imbalance ratio {100 * mean('imbalance_ratio'):.1f} % (mean): the time that ranks wait "
          "for each other")
    print(f"  planning {1e3 * mean('plan_seconds'):.0f} ms an iteration of "
          f"{1e3 * mean('seconds'):.0f} ms, while the one before trains; "
          f"{1e3 * mean('plan_exposed_seconds'):.1f} ms of it were waited for")


main()
