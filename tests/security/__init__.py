"""Security checks that concern the whole product; docs/security-checks.md lists all forty."""
