"""trimtab: zero-shot image classifiers that adapt, at test time, to the unlabeled images they meet."""
