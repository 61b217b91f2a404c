"""Wrong choices in the slots of this topic."""
