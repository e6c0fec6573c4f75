"""The policy and its approvals."""
