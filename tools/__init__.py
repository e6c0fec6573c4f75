"""Writers of generated pages."""
