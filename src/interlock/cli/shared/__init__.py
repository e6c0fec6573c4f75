"""What commands share: options, the server they ask, output."""
