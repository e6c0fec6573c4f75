"""Commands that check files, policies, plans and the machine."""
