"""MEDIC: experts for kinds of change, behind DIRL and behind SCORER (Park, Oh, Kim, ECCV 2026)."""
