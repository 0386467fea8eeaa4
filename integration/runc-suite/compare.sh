# shellcheck shell=bash disable=SC2154
# compare.sh: sourced by runc-suite.sh. Compares the outcomes of tests between modes.

# outcomes TAP: prints `file|test|outcome` for each test; the outcome is ok, not-ok or skip
outcomes() {
  sed -n -e '/^# FILE /{s///;h;}' \
    -e '/^\(not \)\{0,1\}ok [0-9]* /{G;s/^\(.*\)\n\(.*\)$/\2|\1/;p;}' "$1" |
    sed -e 's/|not ok [0-9]* \(.*\)/|\1|not-ok/;t e' \
      -e 's/|ok [0-9]* \(.*\) # skip.*/|\1|skip/;t' -e 's/|ok [0-9]* \(.*\)/|\1|ok/' \
      -e ':e' -e 's/ # timeout[^|]*|/|/'
}

# tally: reads outcomes, one a line, and prints their numbers, such as `ok 4, skip 1`
tally() {
  sort | uniq -c |
    awk '{ printf "%s%s %d", sep, $2, $1; sep = ", " } END { if (!NR) printf "not run" }'
}
# counts TAP: prints the numbers of all outcomes
counts() { outcomes "$1" | awk -F'|' '{ print $3 }' | tally; }

# differing A B: prints the tests, `file|test`, with different outcomes or in only one of the files
differing() {
  gawk -F'|' 'FNR == NR { a[$1 "|" $2] = $3; next } { b[$1 "|" $2] = $3 }
    END {
      PROCINFO["sorted_in"] = "@ind_str_asc"
      for (k in b) a[k] = a[k]
      for (k in a) if (a[k] != b[k]) print k
    }' <(outcomes "$1") <(outcomes "$2")
}

# outcome_of TAP FILE TEST: prints the outcome of one test
outcome_of() { outcomes "$1" | gawk -F'|' -v f="$2" -v t="$3" '$1 == f && $2 == t { print $3 }'; }

# Runs each test with different outcomes alone, REPEAT times in each of the two modes, alternately.
# A test differs if its outcome on bare runc is always the same, and the mode has another outcome at
# least once; reasons.txt has the known reasons. A test with varying outcomes on bare runc is
# printed as `varies` and is not a difference.
compare_all() {
  local mode file name n side differences=0 known=0 unsteady=0 first again steady reason
  local tap=$work/alone.tap
  for mode in "${others[@]}"; do
    while IFS='|' read -r file name; do
      first="bare $(outcome_of "$out/bare.tap" "$file" "$name" | tally)"
      first="$first, $mode $(outcome_of "$out/$mode.tap" "$file" "$name" | tally)"
      : >"$work/alone.bare"
      : >"$work/alone.$mode"
      for ((n = 0; n < ${REPEAT:-5}; n++)); do
        for side in bare "$mode"; do
          suite "$side" "$tap" "$file" "^$(printf %s "$name" | sed 's/[][\\.*^$+?(){}|]/\\&/g')\$"
          outcome_of "$tap" "$file" "$name" >>"$work/alone.$side"
          cat "$tap" >>"$out/alone.$side.tap"
        done
      done
      again="bare $(tally <"$work/alone.bare"), $mode $(tally <"$work/alone.$mode")"
      steady=$({ cat "$work/alone.bare"; outcome_of "$out/bare.tap" "$file" "$name"; } | sort -u)
      if [ "$(wc -l <<<"$steady")" -gt 1 ] || [ "$(sort -u "$work/alone.$mode")" = "$steady" ]; then
        unsteady=$((unsteady + 1))
        echo "varies on bare runc or not reproduced: $file: $name: first $first; alone $again"
      else
        echo "DIFFERS: $file: $name: first $first; alone $again"
        reason=$(gawk -F'|' -v f="$file" -v t="$name" '$1 == f && $2 == t { print $3 }' \
          "$HERE/runc-suite/reasons.txt")
        if [ -n "$reason" ]; then
          known=$((known + 1))
          echo "  known: $reason"
        else
          differences=$((differences + 1))
        fi
      fi
    done < <(differing "$out/bare.tap" "$out/$mode.tap")
  done
  echo "differences: $differences; known: $known; varying: $unsteady;" \
    "outcomes in ${NRI_SUITE_OUT:-$out}"
  [ $differences = 0 ]
}
