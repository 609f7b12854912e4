# Of the headers' comments, before Doxygen reads them: "Complexity: O(1)." becomes a paragraph with a title, and the
# name of a page a link to it.
\|^ *///| {
  s#(/// |[.;)] )(Complexity|Cost|Example|Invariants|Memory|Memory order): #\1\\labelled{\2} #g
  s#(/// |[.;)] )(Note|Options|Order|Thread safety): #\1\\labelled{\2} #g
  s#(\\throws [A-Za-z0-9_:]+)[;.,]( |$)#\1\2#g
  s#(docs/[a-z_]+)\.md#<a href="../\1.html">\1.md</a>#g
}
