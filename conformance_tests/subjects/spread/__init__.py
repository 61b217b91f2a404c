"""Torch modules that are spread over processes: tensor parallel, fully sharded."""
