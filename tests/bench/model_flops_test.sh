#!/bin/bash
# Runs the Python test beside this script with any python3.
exec python3 "$1" catalog/models
