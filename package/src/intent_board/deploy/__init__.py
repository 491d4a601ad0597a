"""Deployment on the one host: trusted code that no model runs, decides, or is believed about."""

from intent_board.deploy.blunix import deploy_blunix, recover
from intent_board.deploy.host import Account, DeployRefused, Host
from intent_board.deploy.outcome import Flags, Outcome, Report

__all__ = ["Account", "DeployRefused", "Flags", "Host", "Outcome", "Report", "deploy_blunix", "recover"]
