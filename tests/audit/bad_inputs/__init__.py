"""Bad inputs of the command line, as data: what is typed, the exit code, the sentence, and nothing left behind."""
