"""The first ledger: runs, calls, delegations, totals, alerts, decisions, pauses, reservations."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('budget_alerts',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('scope', sa.String(), nullable=False),
    sa.Column('scope_id', sa.String(), server_default='', nullable=False),
    sa.Column('window', sa.String(), nullable=False),
    sa.Column('measure', sa.String(), nullable=False),
    sa.Column('period_key', sa.String(), nullable=False),
    sa.Column('level', sa.String(), nullable=False),
    sa.Column('at_ms', sa.BigInteger(), nullable=False),
    sa.Column('run_id', sa.String(), server_default='', nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_budget_alerts')),
    sa.UniqueConstraint('scope', 'scope_id', 'window', 'measure', 'period_key', 'level', name=op.f('uq_budget_alerts_scope_scope_id_window_measure_period_key_level'))
    )
    op.create_table('calls',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('attempt_id', sa.String(), nullable=False),
    sa.Column('run_id', sa.String(), nullable=False),
    sa.Column('at_ms', sa.BigInteger(), nullable=False),
    sa.Column('provider', sa.String(), server_default='', nullable=False),
    sa.Column('model', sa.String(), server_default='', nullable=False),
    sa.Column('response_model', sa.String(), server_default='', nullable=False),
    sa.Column('input_tokens', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('output_tokens', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('cache_read_tokens', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('cache_write_tokens', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('cache_write_1h_tokens', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('reasoning_tokens', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('cost_nanos', sa.BigInteger(), nullable=True),
    sa.Column('cost_source', sa.String(), nullable=False),
    sa.Column('estimated', sa.Integer(), server_default='0', nullable=False),
    sa.Column('estimate_nanos', sa.BigInteger(), nullable=True),
    sa.Column('price_id', sa.String(), server_default='', nullable=False),
    sa.Column('price_date', sa.String(), server_default='', nullable=False),
    sa.Column('tier', sa.String(), server_default='', nullable=False),
    sa.Column('flags', sa.String(), server_default='', nullable=False),
    sa.Column('auxiliary_task', sa.String(), server_default='', nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_calls')),
    sa.UniqueConstraint('attempt_id', name=op.f('uq_calls_attempt_id'))
    )
    op.create_index(op.f('ix_calls_at_ms'), 'calls', ['at_ms'], unique=False)
    op.create_index(op.f('ix_calls_run_id'), 'calls', ['run_id'], unique=False)
    op.create_table('checkpoints',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('run_id', sa.String(), nullable=False),
    sa.Column('number', sa.Integer(), server_default='0', nullable=False),
    sa.Column('at_ms', sa.BigInteger(), nullable=False),
    sa.Column('established', sa.String(), server_default='', nullable=False),
    sa.Column('enough', sa.String(), server_default='', nullable=False),
    sa.Column('smallest', sa.String(), server_default='', nullable=False),
    sa.Column('head', sa.String(), server_default='', nullable=False),
    sa.Column('artifact', sa.String(), server_default='', nullable=False),
    sa.Column('score', sa.Float(), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_checkpoints'))
    )
    op.create_index(op.f('ix_checkpoints_run_id'), 'checkpoints', ['run_id'], unique=False)
    op.create_table('claims',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('claim_key', sa.String(), nullable=False),
    sa.Column('effect', sa.String(), nullable=False),
    sa.Column('tool', sa.String(), nullable=False),
    sa.Column('per', sa.String(), nullable=False),
    sa.Column('run_id', sa.String(), nullable=False),
    sa.Column('call_id', sa.String(), server_default='', nullable=False),
    sa.Column('state', sa.String(), nullable=False),
    sa.Column('claimed_ms', sa.BigInteger(), nullable=False),
    sa.Column('settled_ms', sa.BigInteger(), nullable=True),
    sa.Column('answer_at', sa.String(), server_default='', nullable=False),
    sa.Column('owner_host', sa.String(), nullable=False),
    sa.Column('owner_pid', sa.Integer(), nullable=False),
    sa.Column('owner_started', sa.String(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_claims')),
    sa.UniqueConstraint('claim_key', name=op.f('uq_claims_claim_key'))
    )
    op.create_index(op.f('ix_claims_effect_state'), 'claims', ['effect', 'state'], unique=False)
    op.create_table('config_changes',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('at_ms', sa.BigInteger(), nullable=False),
    sa.Column('who', sa.String(), nullable=False),
    sa.Column('via', sa.String(), nullable=False),
    sa.Column('scope', sa.String(), nullable=False),
    sa.Column('scope_id', sa.String(), server_default='', nullable=False),
    sa.Column('window', sa.String(), nullable=False),
    sa.Column('measure', sa.String(), nullable=False),
    sa.Column('amount_before', sa.BigInteger(), nullable=True),
    sa.Column('amount_after', sa.BigInteger(), nullable=True),
    sa.Column('state', sa.String(), server_default='done', nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_config_changes'))
    )
    op.create_index(op.f('ix_config_changes_at_ms'), 'config_changes', ['at_ms'], unique=False)
    op.create_table('cron_pauses',
    sa.Column('cron_job_id', sa.String(), nullable=False),
    sa.Column('paused_ms', sa.BigInteger(), nullable=False),
    sa.Column('until_ms', sa.BigInteger(), nullable=False),
    sa.Column('reason', sa.Text(), nullable=False),
    sa.Column('scope', sa.String(), nullable=False),
    sa.Column('scope_id', sa.String(), server_default='', nullable=False),
    sa.Column('window', sa.String(), nullable=False),
    sa.Column('host_paused_at', sa.String(), server_default='', nullable=False),
    sa.Column('home', sa.String(), server_default='', nullable=False),
    sa.Column('profile', sa.String(), server_default='', nullable=False),
    sa.PrimaryKeyConstraint('cron_job_id', name=op.f('pk_cron_pauses'))
    )
    op.create_table('decisions',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('at_ms', sa.BigInteger(), nullable=False),
    sa.Column('run_id', sa.String(), server_default='', nullable=False),
    sa.Column('gate', sa.String(), nullable=False),
    sa.Column('scope', sa.String(), nullable=False),
    sa.Column('scope_id', sa.String(), server_default='', nullable=False),
    sa.Column('window', sa.String(), nullable=False),
    sa.Column('measure', sa.String(), nullable=False),
    sa.Column('period_key', sa.String(), server_default='', nullable=False),
    sa.Column('level', sa.String(), nullable=False),
    sa.Column('used', sa.BigInteger(), nullable=False),
    sa.Column('amount', sa.BigInteger(), nullable=False),
    sa.Column('action', sa.String(), nullable=False),
    sa.Column('detail', sa.String(), server_default='', nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_decisions'))
    )
    op.create_index(op.f('ix_decisions_at_ms'), 'decisions', ['at_ms'], unique=False)
    op.create_index(op.f('ix_decisions_run_id'), 'decisions', ['run_id'], unique=False)
    op.create_table('extensions',
    sa.Column('number', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('run_id', sa.String(), nullable=False),
    sa.Column('session_id', sa.String(), server_default='', nullable=False),
    sa.Column('cron_job_id', sa.String(), server_default='', nullable=False),
    sa.Column('ticket_id', sa.String(), server_default='', nullable=False),
    sa.Column('cause', sa.String(), nullable=False),
    sa.Column('meter', sa.String(), nullable=False),
    sa.Column('asked', sa.BigInteger(), nullable=False),
    sa.Column('reason', sa.String(), server_default='', nullable=False),
    sa.Column('account', sa.Text(), nullable=False),
    sa.Column('state', sa.String(), nullable=False),
    sa.Column('asked_ms', sa.BigInteger(), nullable=False),
    sa.Column('granted', sa.BigInteger(), nullable=True),
    sa.Column('who', sa.String(), server_default='', nullable=False),
    sa.Column('via', sa.String(), server_default='', nullable=False),
    sa.Column('decided_ms', sa.BigInteger(), nullable=True),
    sa.Column('linked_run_id', sa.String(), server_default='', nullable=False),
    sa.PrimaryKeyConstraint('number', name=op.f('pk_extensions')),
    sa.UniqueConstraint('run_id', name=op.f('uq_extensions_run_id'))
    )
    op.create_index(op.f('ix_extensions_session_id'), 'extensions', ['session_id'], unique=False)
    op.create_index(op.f('ix_extensions_state'), 'extensions', ['state'], unique=False)
    op.create_table('known_limits',
    sa.Column('file', sa.String(), nullable=False),
    sa.Column('layer', sa.String(), nullable=False),
    sa.Column('scope', sa.String(), nullable=False),
    sa.Column('scope_id', sa.String(), nullable=False),
    sa.Column('window', sa.String(), nullable=False),
    sa.Column('measure', sa.String(), nullable=False),
    sa.Column('amount', sa.BigInteger(), nullable=True),
    sa.PrimaryKeyConstraint('file', 'layer', 'scope', 'scope_id', 'window', 'measure', name=op.f('pk_known_limits')),
    sqlite_with_rowid=False
    )
    op.create_table('reservations',
    sa.Column('attempt_id', sa.String(), nullable=False),
    sa.Column('run_id', sa.String(), nullable=False),
    sa.Column('since_ms', sa.BigInteger(), nullable=False),
    sa.Column('nanos', sa.BigInteger(), nullable=False),
    sa.Column('tokens', sa.BigInteger(), nullable=False),
    sa.Column('provider', sa.String(), server_default='', nullable=False),
    sa.Column('model', sa.String(), server_default='', nullable=False),
    sa.Column('owner_host', sa.String(), nullable=False),
    sa.Column('owner_pid', sa.Integer(), nullable=False),
    sa.Column('owner_started', sa.String(), nullable=False),
    sa.PrimaryKeyConstraint('attempt_id', name=op.f('pk_reservations'))
    )
    op.create_table('run_endings',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('run_id', sa.String(), nullable=False),
    sa.Column('at_ms', sa.BigInteger(), nullable=False),
    sa.Column('state', sa.String(), nullable=False),
    sa.Column('cause', sa.String(), nullable=False),
    sa.Column('status', sa.String(), nullable=False),
    sa.Column('trigger', sa.String(), server_default='', nullable=False),
    sa.Column('next_owner', sa.String(), server_default='', nullable=False),
    sa.Column('near_miss', sa.Integer(), server_default='0', nullable=False),
    sa.Column('receipt', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_run_endings')),
    sa.UniqueConstraint('run_id', name=op.f('uq_run_endings_run_id'))
    )
    op.create_index(op.f('ix_run_endings_status'), 'run_endings', ['status'], unique=False)
    op.create_table('runs',
    sa.Column('run_id', sa.String(), nullable=False),
    sa.Column('session_id', sa.String(), nullable=False),
    sa.Column('root_run_id', sa.String(), nullable=False),
    sa.Column('kind', sa.String(), nullable=False),
    sa.Column('started_ms', sa.BigInteger(), nullable=False),
    sa.Column('ended_ms', sa.BigInteger(), nullable=True),
    sa.Column('outcome', sa.String(), server_default='', nullable=False),
    sa.Column('cron_job_id', sa.String(), server_default='', nullable=False),
    sa.Column('sender_id', sa.String(), server_default='', nullable=False),
    sa.Column('profile', sa.String(), server_default='', nullable=False),
    sa.Column('platform', sa.String(), server_default='', nullable=False),
    sa.Column('ticket_id', sa.String(), server_default='', nullable=False),
    sa.Column('model', sa.String(), server_default='', nullable=False),
    sa.Column('linked_run_id', sa.String(), server_default='', nullable=False),
    sa.Column('active_ms', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('next_nanos', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('next_tokens', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('owner_host', sa.String(), server_default='', nullable=False),
    sa.Column('owner_pid', sa.Integer(), server_default='0', nullable=False),
    sa.Column('owner_started', sa.String(), server_default='', nullable=False),
    sa.PrimaryKeyConstraint('run_id', name=op.f('pk_runs'))
    )
    op.create_index(op.f('ix_runs_cron_job_id_started_ms'), 'runs', ['cron_job_id', 'started_ms'], unique=False)
    op.create_index('ix_runs_open', 'runs', ['active_ms'], unique=False, sqlite_where=sa.text('ended_ms IS NULL'))
    op.create_index(op.f('ix_runs_profile_started_ms'), 'runs', ['profile', 'started_ms'], unique=False)
    op.create_index(op.f('ix_runs_root_run_id'), 'runs', ['root_run_id'], unique=False)
    op.create_index(op.f('ix_runs_sender_id_started_ms'), 'runs', ['sender_id', 'started_ms'], unique=False)
    op.create_index(op.f('ix_runs_session_id'), 'runs', ['session_id'], unique=False)
    op.create_index(op.f('ix_runs_started_ms'), 'runs', ['started_ms'], unique=False)
    op.create_table('spend_totals',
    sa.Column('scope', sa.String(), nullable=False),
    sa.Column('scope_id', sa.String(), nullable=False),
    sa.Column('end_ms', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('start_ms', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('window', sa.String(), nullable=False),
    sa.Column('certain_nanos', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('estimated_nanos', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('tokens', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('calls', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('unpriced_calls', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('estimated_calls', sa.BigInteger(), server_default='0', nullable=False),
    sa.PrimaryKeyConstraint('scope', 'scope_id', 'end_ms', 'start_ms', 'window', name=op.f('pk_spend_totals')),
    sqlite_with_rowid=False
    )
    op.create_table('subagent_edges',
    sa.Column('child_session_id', sa.String(), nullable=False),
    sa.Column('parent_run_id', sa.String(), nullable=False),
    sa.Column('role', sa.String(), server_default='', nullable=False),
    sa.Column('started_ms', sa.BigInteger(), nullable=False),
    sa.Column('stopped_ms', sa.BigInteger(), nullable=True),
    sa.Column('status', sa.String(), server_default='', nullable=False),
    sa.PrimaryKeyConstraint('child_session_id', name=op.f('pk_subagent_edges'))
    )
    op.create_index(op.f('ix_subagent_edges_parent_run_id'), 'subagent_edges', ['parent_run_id'], unique=False)
    op.create_table('ticket_usage',
    sa.Column('ticket_id', sa.String(), nullable=False),
    sa.Column('what', sa.String(), nullable=False),
    sa.Column('name', sa.String(), nullable=False),
    sa.Column('amount', sa.BigInteger(), nullable=False),
    sa.Column('at_ms', sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint('ticket_id', 'what', 'name', name=op.f('pk_ticket_usage')),
    sqlite_with_rowid=False
    )
