"""The one form of a rule that all engines share."""
