#!/bin/bash
# The Python test beside this, with any python3.
exec python3 "$1" catalog/models
