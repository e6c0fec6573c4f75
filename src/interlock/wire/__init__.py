"""What processes say to each other: messages, requests with their answers, commands and effects, in frames."""
