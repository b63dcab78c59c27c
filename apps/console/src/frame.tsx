import { useEffect, useRef, useState } from 'react';
import { useSigned } from './context.js';
import { addressOf, usePlace } from './router.js';
import { Badge, Empty } from './ui/parts.js';
import { Brand } from './ui/brand.js';
import { mayOpen, VIEWS } from './views.js';

/** Navigation and the view of the current place. What a key may not see is not offered, and says why when it is reached. */
export function Frame({ onSignOut }: { onSignOut: (why?: string) => void }) {
  const { me } = useSigned();
  const { view: name, item } = usePlace();
  const [open, setOpen] = useState(false);
  const main = useRef<HTMLElement>(null);
  const view = VIEWS.find((one) => one.name === name);
  const place = `${name}/${item ?? ''}`;
  const shown = useRef(place);

  useEffect(() => {
    document.title = `${view?.title ?? 'Not found'} · toolfleet`;
    if (shown.current === place) return;
    shown.current = place;
    setOpen(false);
    // As a new page would: screen readers and keys begin at its top.
    main.current?.focus();
    scrollTo(0, 0);
  }, [place, view]);

  return (
    <div className="frame">
      <a
        className="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          main.current?.focus();
        }}
      >
        Skip to the content
      </a>
      <div className="topbar">
        <Brand />
        <button aria-expanded={open} aria-controls="side" onClick={() => setOpen(!open)}>
          Menu
        </button>
      </div>
      <div id="side" className={open ? 'side open' : 'side'}>
        <Brand />
        <nav className="nav" aria-label="Views">
          <ul>
            {VIEWS.filter((one) => mayOpen(one, me)).map((one) => (
              <li key={one.name}>
                <a href={addressOf(one.name)} aria-current={one.name === name ? 'page' : undefined}>
                  {one.title}
                  {one.Mark && <one.Mark />}
                </a>
              </li>
            ))}
          </ul>
        </nav>
        <div className="who small">
          <span className="wrap">
            <strong>{me.user_id || 'no user'}</strong> of <strong>{me.tenant_id}</strong>
          </span>
          <span className="row">
            {me.admin ? (
              <Badge tone="accent">{me.operator ? 'operator' : 'administrator'}</Badge>
            ) : (
              <Badge>member</Badge>
            )}
            {me.roles
              .filter((role) => role !== 'admin' && role !== 'operator')
              .map((role) => (
                <Badge key={role}>{role}</Badge>
              ))}
          </span>
          <button onClick={() => onSignOut()}>Sign out</button>
        </div>
      </div>
      <main className="main" id="main" ref={main} tabIndex={-1}>
        {!view ? (
          <Empty>There is no such view.</Empty>
        ) : !mayOpen(view, me) ? (
          <div className="notice warn">
            <strong>
              {view.title} is for {view.needs === 'operator' ? 'operators' : 'administrators'}
            </strong>
            <span>
              {view.why} Your key has {me.roles.length > 0 ? `the roles ${me.roles.join(', ')}` : 'no role'}.
            </span>
          </div>
        ) : (
          <view.Component key={name} item={item} />
        )}
      </main>
    </div>
  );
}
