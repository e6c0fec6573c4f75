"""The way in: admission of new runs, actions on those that wait, and who made them."""
