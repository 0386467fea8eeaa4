# shellcheck shell=bash disable=SC2154
# compare.sh: sourced by runc-suite.sh. Reads protocols and tells where modes differ.

# outcomes TAP: a line `file|test|outcome` for each test, the outcome being ok, not-ok or skip
outcomes() {
  sed -n -e '/^# FILE /{s///;h;}' -e '/^\(not \)\{0,1\}ok [0-9]* /{G;s/^\(.*\)\n\(.*\)$/\2|\1/;p;}' "$1" |
    sed -e 's/|not ok [0-9]* \(.*\)/|\1|not-ok/;t e' -e 's/|ok [0-9]* \(.*\) # skip.*/|\1|skip/;t' -e 's/|ok [0-9]* \(.*\)/|\1|ok/' -e ':e' -e 's/ # timeout[^|]*|/|/'
}

# tally: of a list of outcomes, such as `ok 4, skip 1`
tally() { sort | uniq -c | awk '{ printf "%s%s %d", sep, $2, $1; sep = ", " } END { if (!NR) printf "not run" }'; }
counts() { outcomes "$1" | awk -F'|' '{ print $3 }' | tally; }

# differing A B: the tests, `file|test`, that have other outcomes, or are not in both
differing() {
  gawk -F'|' 'FNR == NR { a[$1 "|" $2] = $3; next } { b[$1 "|" $2] = $3 }
    END { PROCINFO["sorted_in"] = "@ind_str_asc"; for (k in b) a[k] = a[k]; for (k in a) if (a[k] != b[k]) print k }' <(outcomes "$1") <(outcomes "$2")
}

# of TAP FILE TEST: the outcome
of() { outcomes "$1" | gawk -F'|' -v f="$2" -v t="$3" '$1 == f && $2 == t { print $3 }'; }

# A test is run alone REPEAT times on each side, in turn. It differs if it always comes out the same on bare runc, and at least once otherwise on
# the other side; why is in reasons.txt, where it is known. What does not always come out the same on bare runc can tell nothing; it is listed.
compare_all() {
  local mode file name n side differences=0 unsteady=0 first again steady reason tap=$work/alone.tap
  for mode in "${others[@]}"; do
    while IFS='|' read -r file name; do
      first="bare $(of "$out/bare.tap" "$file" "$name" | tally), $mode $(of "$out/$mode.tap" "$file" "$name" | tally)"
      : >"$work/alone.bare"
      : >"$work/alone.$mode"
      for ((n = 0; n < ${REPEAT:-5}; n++)); do
        for side in bare "$mode"; do
          suite "$side" "$tap" "$file" "^$(printf %s "$name" | sed 's/[][\\.*^$+?(){}|]/\\&/g')\$"
          of "$tap" "$file" "$name" >>"$work/alone.$side"
          cat "$tap" >>"$out/alone.$side.tap"
        done
      done
      again="bare $(tally <"$work/alone.bare"), $mode $(tally <"$work/alone.$mode")"
      steady=$({ cat "$work/alone.bare"; of "$out/bare.tap" "$file" "$name"; } | sort -u)
      if [ "$(wc -l <<<"$steady")" -gt 1 ] || [ "$(sort -u "$work/alone.$mode")" = "$steady" ]; then
        unsteady=$((unsteady + 1))
        echo "not always the same: $file: $name: first $first; alone $again"
      else
        differences=$((differences + 1))
        echo "DIFFERS: $file: $name: first $first; alone $again"
        reason=$(gawk -F'|' -v f="$file" -v t="$name" '$1 == f && $2 == t { print $3 }' "$HERE/runc-suite/reasons.txt")
        [ -z "$reason" ] || echo "  known: $reason"
      fi
    done < <(differing "$out/bare.tap" "$out/$mode.tap")
  done
  echo "differences: $differences; not always the same: $unsteady; protocols in ${NRI_SUITE_OUT:-$out}"
  [ $differences = 0 ]
}
