import { useState } from 'react';
import type { Breaker, ToolLimit } from '@toolfleet/client';
import { useSigned } from '../session.js';
import { count, duration } from '../format.js';
import { Badge, Columns, Empty, Facts, Head, Loaded, Search } from '../ui/components.js';
import { Meter } from '../ui/meters.js';
import { useQuery } from '../use-query.js';

const EVERY_MS = 5_000;
const MOST_SHOWN = 100;

/** What currently limits calls: breakers, rate limits of tools, limits of the key. */
export function BreakersView() {
  const { api, me } = useSigned();
  const breakers = useQuery('breakers', api.breakers, EVERY_MS);
  const limits = useQuery('limits', api.limits);
  return (
    <>
      <Head title="Breakers and limits" about="What currently limits calls.">
        <button
          onClick={() => {
            breakers.refresh();
            limits.refresh();
          }}
        >
          Refresh
        </button>
      </Head>
      <section className="card stack" aria-labelledby="breakers">
        <h2 id="breakers">Breakers</h2>
        <Loaded query={breakers}>
          {(found) =>
            found.length === 0 ? (
              <div className="notice good">
                <strong>Every breaker is closed</strong>
                <span className="small">
                  {me.operator ? 'Tools and the services behind them answer.' : 'The tools you may call answer.'}
                </span>
              </div>
            ) : (
              <BreakerTable breakers={found} />
            )
          }
        </Loaded>
      </section>
      <section className="card stack" aria-labelledby="own">
        <h2 id="own">Requests of your key</h2>
        <Facts
          facts={[
            ['Class', me.tier.name ?? (me.admin ? 'admin' : 'free')],
            ['A minute', allowance(me.tier.requests_per_minute, api.allowance?.leftMinute)],
            ['An hour', allowance(me.tier.requests_per_hour, api.allowance?.leftHour)],
            ['A day', count(me.tier.requests_per_day)],
          ]}
        />
      </section>
      <section className="card stack" aria-labelledby="limits">
        <h2 id="limits">Limits of tools, per minute and tenant</h2>
        <Loaded query={limits}>{(found) => <LimitTable limits={found} />}</Loaded>
      </section>
    </>
  );
}

const allowance = (limit: number, left: number | undefined): string =>
  left === undefined ? count(limit) : `${count(left)} of ${count(limit)} left`;

function BreakerTable({ breakers }: { breakers: Breaker[] }) {
  return (
    <table className="table">
      <Columns names={['Protects', 'State', 'Next try', 'Seen by']} />
      <tbody>
        {breakers.map((breaker) => (
          <tr key={`${breaker.service} ${breaker.key} ${breaker.tenant_id ?? ''}`}>
            <td className="lead">
              <span className="row">
                <code className="wrap">{breaker.key}</code>
                <Badge>{breaker.protects}</Badge>
                {breaker.tenant_id !== undefined && <Badge>tenant {breaker.tenant_id}</Badge>}
              </span>
            </td>
            <td data-label="State">
              <Badge tone={breaker.state === 'open' ? 'bad' : 'warn'}>
                {breaker.state === 'open' ? 'open' : 'half open'}
              </Badge>
            </td>
            <td data-label="Next try">{breaker.state === 'open' ? `in ${duration(breaker.open_for_ms)}` : 'now'}</td>
            <td data-label="Seen by">
              {breaker.service}, {count(breaker.instances)} {breaker.instances === 1 ? 'process' : 'processes'}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function LimitTable({ limits }: { limits: ToolLimit[] }) {
  const [text, setText] = useState('');
  const found = limits.filter(({ tool }) => tool.toLowerCase().includes(text.trim().toLowerCase()));
  return (
    <div className="stack">
      <Search label="Search tools" value={text} onChange={setText} />
      {found.length === 0 ? (
        <Empty>No tool with a rate limit matches.</Empty>
      ) : (
        <table className="table">
          <Columns names={['Tool', 'Used of the last minute', 'Left', 'Limit']} figures={['Left', 'Limit']} />
          <tbody className="middle">
            {found.slice(0, MOST_SHOWN).map(({ tool, per_minute: limit, left }) => (
              <tr key={tool}>
                <td className="lead">{tool}</td>
                <td>{left !== null && <Meter used={limit - left} total={limit} label={`Used of ${tool}`} />}</td>
                <td data-label="Left" className="figure">
                  {left === null ? 'not looked at' : count(left)}
                </td>
                <td data-label="Limit" className="figure">
                  {count(limit)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}
