#!/usr/bin/env bash
# Runs the quickstart and puts the end of what it printed into README.md, so that the output shown
# there is always of a real run.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$repository"

output="$(mktemp)"
trap 'rm -f "$output" README.md.partial' EXIT
scripts/quickstart.sh "$@" | tee "$output"
sed -i "s|$HOME/|~/|g" "$output"

# Of the iterations the first and the last five; of the rest what a reader wants to see.
awk -v shown="$output" '
    function show_run(    line, lines, count, i) {
        print "```"
        while ((getline line < shown) > 0) {
            if (line ~ /^== 4\/6/) keep = 1
            if (keep) lines[++count] = line
        }
        for (i = 1; i <= count; ++i) {
            if (lines[i] ~ /^iteration / && lines[i - 5] ~ /^iteration / && lines[i + 5] ~ /^iteration /) {
                if (!left_out++) print "..."
            } else print lines[i]
        }
        print "```"
    }
    /quickstart output: begin/ { print; show_run(); inside = 1; next }
    /quickstart output: end/ { inside = 0 }
    !inside { print }' README.md >README.md.partial
mv README.md.partial README.md
