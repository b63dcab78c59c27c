import type { FleetBreaker, ToolLimit } from '@toolfleet/client';
import { useState } from 'react';
import { useRoute } from '../api/queries.js';
import { count, duration } from '../format.js';
import { useSigned } from '../session.js';
import { Badge, Card, Facts, Head, Loaded, Notice, TextInput } from '../ui/components.js';
import { Meter } from '../ui/meters.js';
import { Table } from '../ui/table.js';

const EVERY_MS = 5_000;
const MAX_SHOWN = 100;

/** Current limits of calls: breakers, rate limits of tools, limits of the key. */
export function BreakersView() {
  const { me, allowance } = useSigned();
  const breakers = useRoute('GET /api/v1/breakers', {}, { everyMs: EVERY_MS });
  const limits = useRoute('GET /api/v1/limits', {});
  const left = allowance();
  return (
    <>
      <Head title="Breakers and limits" about="What currently limits calls." refreshes />
      <Card title="Breakers">
        <Loaded query={breakers}>{(found) => <Breakers breakers={found.breakers} />}</Loaded>
      </Card>
      <Card title="Requests of your key">
        <Facts
          facts={[
            ['Class', me.tier.name ?? (me.admin ? 'admin' : 'free')],
            ['A minute', allowanceText(me.tier.requests_per_minute, left?.leftMinute)],
            ['An hour', allowanceText(me.tier.requests_per_hour, left?.leftHour)],
            ['A day', count(me.tier.requests_per_day)],
          ]}
        />
      </Card>
      <Card title="Limits of tools, per minute and tenant">
        <Loaded query={limits}>{({ tools }) => <Limits limits={tools} />}</Loaded>
      </Card>
    </>
  );
}

const allowanceText = (limit: number, left: number | undefined): string =>
  left === undefined ? count(limit) : `${count(left)} of ${count(limit)} left`;

function Breakers({ breakers }: { breakers: FleetBreaker[] }) {
  const { me } = useSigned();
  if (breakers.length === 0)
    return (
      <Notice tone="good" title="Every breaker is closed">
        <span className="small">
          {me.operator ? 'Tools and the services behind them answer.' : 'The tools you may call answer.'}
        </span>
      </Notice>
    );
  return (
    <Table
      rows={breakers}
      rowKey={({ service, key, tenant_id: tenant = '' }) => `${service} ${key} ${tenant}`}
      columns={[
        {
          head: 'Protects',
          kind: 'lead',
          cell: ({ key, protects, tenant_id: tenant }) => (
            <span className="row">
              <code className="wrap">{key}</code>
              <Badge>{protects}</Badge>
              {tenant !== undefined && <Badge>tenant {tenant}</Badge>}
            </span>
          ),
        },
        {
          head: 'State',
          cell: ({ state }) => (
            <Badge tone={state === 'open' ? 'bad' : 'warn'}>{state === 'open' ? 'open' : 'half open'}</Badge>
          ),
        },
        {
          head: 'Next try',
          cell: ({ state, open_for_ms: openMs }) => (state === 'open' ? `in ${duration(openMs)}` : 'now'),
        },
        {
          head: 'Seen by',
          cell: ({ service, instances }) =>
            `${service}, ${count(instances)} ${instances === 1 ? 'process' : 'processes'}`,
        },
      ]}
    />
  );
}

function Limits({ limits }: { limits: ToolLimit[] }) {
  const [text, setText] = useState('');
  const found = limits.filter(({ tool }) => tool.toLowerCase().includes(text.trim().toLowerCase()));
  return (
    <div className="stack">
      <TextInput type="search" label="Search tools" value={text} onChange={setText} />
      <Table
        rows={found.slice(0, MAX_SHOWN)}
        rowKey={({ tool }) => tool}
        empty="No tool with a rate limit matches."
        className="middle"
        columns={[
          { head: 'Tool', kind: 'lead', cell: ({ tool }) => tool },
          {
            head: 'Used of the last minute',
            labelled: false,
            cell: ({ tool, left, per_minute: limit }) =>
              left !== null && <Meter used={limit - left} total={limit} label={`Used of ${tool}`} />,
          },
          { head: 'Left', kind: 'figure', cell: ({ left }) => (left === null ? 'not looked at' : count(left)) },
          { head: 'Limit', kind: 'figure', cell: ({ per_minute: limit }) => count(limit) },
        ]}
      />
    </div>
  );
}
