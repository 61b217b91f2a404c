"""The tests of this project itself: specification, oracles, suite and site."""
