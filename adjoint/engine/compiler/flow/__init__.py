"""Loops and branches inside programs: templates for every target whose driver can jump."""

from adjoint.engine.compiler.flow import branches, scans, whiles

TEMPLATES = branches.TEMPLATES | scans.TEMPLATES | whiles.TEMPLATES
