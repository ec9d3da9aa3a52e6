"""The same work on many machines, by Ray. The work itself is in the rooms below; here it is only handed out."""
