"""Adversarial attacks, and the defence of an ensemble of which the attacker knows one member."""

from nesbs.attacks.autoattack import AutoAttack, AutoAttack8, autoattack_library, can_be_made
from nesbs.attacks.carlini_wagner import CarliniWagner
from nesbs.attacks.defence import (
    ATTACKS,
    Attack,
    AttackedBatch,
    Clean,
    Defence,
    Round,
    attack_round,
    attack_then_defend,
    clean_accuracy,
    get_attack,
    sources,
)
from nesbs.attacks.fgsm import Fgsm
from nesbs.attacks.gradient import frozen, loss_gradient
from nesbs.attacks.noise import Noise
from nesbs.attacks.pgd import Pgd
from nesbs.attacks.pictures import Album
from nesbs.attacks.sanity import Check, sanity_attacks, sanity_checks
from nesbs.attacks.settings import NAMES, AttackSettings
