# From ctest's log, "TEST: why it was skipped": of GoogleTest, of unittest, and of scripts that print "skipped: " and why.
# Half of a test has the name of the whole.
/^[0-9]+\/[0-9]+ Test: / { test = $0; sub(/^[^:]*: /, "", test); sub(/\.[01]$/, "", test); next }
/^skipped: / { print test ": " substr($0, 10); next }
/^test_.* \.\.\. skipped / {
  reason = $0
  sub(/^.* \.\.\. skipped ./, "", reason)
  sub(/.$/, "", reason)
  print test ": " $1 ": " reason
  next
}
told { print test ": " $0; told = 0; next }
/: Skipped$/ { told = 1 }
