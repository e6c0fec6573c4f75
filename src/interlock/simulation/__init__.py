"""Virtual time, and forecasts made with the real engine on it."""
