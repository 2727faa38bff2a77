"""Sums of days, for calls that are not kept one by one; tool calls as digests, for replay."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('day_sums',
    sa.Column('day_ms', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('session_id', sa.String(), nullable=False),
    sa.Column('cron_job_id', sa.String(), nullable=False),
    sa.Column('sender_id', sa.String(), nullable=False),
    sa.Column('profile', sa.String(), nullable=False),
    sa.Column('platform', sa.String(), nullable=False),
    sa.Column('model', sa.String(), nullable=False),
    sa.Column('certain_nanos', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('estimated_nanos', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('calls', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('unpriced_calls', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('estimated_calls', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('input_tokens', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('output_tokens', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('cache_read_tokens', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('cache_write_tokens', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('reasoning_tokens', sa.BigInteger(), server_default='0', nullable=False),
    sa.PrimaryKeyConstraint('day_ms', 'session_id', 'cron_job_id', 'sender_id', 'profile', 'platform', 'model', name=op.f('pk_day_sums')),
    sqlite_with_rowid=False
    )
    op.create_index(op.f('ix_day_sums_session_id'), 'day_sums', ['session_id'], unique=False)
    op.create_table('tool_events',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('run_id', sa.String(), nullable=False),
    sa.Column('seq', sa.BigInteger(), nullable=False),
    sa.Column('at_ms', sa.BigInteger(), nullable=False),
    sa.Column('tool', sa.String(), nullable=False),
    sa.Column('args_digest', sa.String(), nullable=False),
    sa.Column('target', sa.String(), server_default='', nullable=False),
    sa.Column('result_digest', sa.String(), nullable=False),
    sa.Column('status', sa.String(), nullable=False),
    sa.Column('error_digest', sa.String(), server_default='', nullable=False),
    sa.Column('step', sa.String(), server_default='', nullable=False),
    sa.Column('action', sa.String(), server_default='', nullable=False),
    sa.Column('waits', sa.Integer(), server_default='0', nullable=False),
    sa.Column('after_person', sa.Integer(), server_default='0', nullable=False),
    sa.Column('resumed_ms', sa.BigInteger(), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_tool_events')),
    sa.UniqueConstraint('run_id', 'seq', name=op.f('uq_tool_events_run_id_seq'))
    )
    op.create_index(op.f('ix_tool_events_at_ms'), 'tool_events', ['at_ms'], unique=False)
