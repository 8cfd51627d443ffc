#!/bin/sh
# Checks the syntax of the workflows with action-validator, which takes one file at a time.
set -eu
cd "$(dirname "$0")"
for workflow in workflows/*.yml; do
    echo "$workflow"
    action-validator "$workflow"
done
