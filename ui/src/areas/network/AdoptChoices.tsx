import { Checkbox, Select, TagsInput, TextInput } from '@mantine/core'
import { Fragment } from 'react'
import { useTranslation } from 'react-i18next'
import { Badge } from '../../kit/state/StateBadge'
import classes from './Adopt.module.css'
import { type Choice, reachesOut, type Sources, services, withAddresses, withZone } from './adoption'
import { useZoneNames } from './useLinks'

interface AdoptChoicesProps {
  choices: Choice[]
  onChoices: (choices: Choice[]) => void
  sources: Sources
  onSources: (sources: Sources) => void
}

/**
 * Which interfaces, in which zones, with which addresses, which services their clients get, and the servers behind
 * those.
 */
export function AdoptChoices({ choices, onChoices, sources, onSources }: AdoptChoicesProps) {
  const { t } = useTranslation('network')
  const change = (name: string, part: Partial<Choice>) =>
    onChoices(choices.map((one) => (one.link.name === name ? { ...one, ...part } : one)))
  const list = (name: 'upstream_forwards' | 'time_servers') => (
    <TagsInput
      label={t(`adopt.${name}.label`)}
      description={t(`adopt.${name}.help`)}
      value={sources[name]}
      onChange={(value) => onSources({ ...sources, [name]: value })}
      classNames={{ pill: 'mono' }}
      splitChars={[',', ' ', ';']}
      acceptValueOnBlur
    />
  )
  return (
    <>
      {choices.map((choice) => (
        <LinkChoice key={choice.link.name} choice={choice} onChange={(part) => change(choice.link.name, part)} />
      ))}
      <fieldset className={classes.starter}>
        <legend>{t('adopt.starter')}</legend>
        {list('upstream_forwards')}
        {list('time_servers')}
        {reachesOut(choices) && (
          <Checkbox
            label={t('adopt.masquerade.label')}
            description={t('adopt.masquerade.help')}
            checked={sources.masquerade}
            onChange={(event) => onSources({ ...sources, masquerade: event.currentTarget.checked })}
          />
        )}
      </fieldset>
    </>
  )
}

interface LinkChoiceProps {
  choice: Choice
  onChange: (part: Partial<Choice>) => void
}

function LinkChoice({ choice, onChange }: LinkChoiceProps) {
  const { t } = useTranslation('network')
  const zones = useZoneNames()
  const { link, take, network } = choice
  const state = !link.up ? 'down' : link.carrier ? 'up' : 'no-carrier'
  return (
    <fieldset className={classes.link}>
      <legend className="visually-hidden">{link.name}</legend>
      <div className={classes.head}>
        <Checkbox
          label={<span className="mono">{link.name}</span>}
          description={[t(`kinds.${link.type}`), link.mac].filter(Boolean).join(' · ')}
          checked={take}
          onChange={(event) => onChange({ take: event.currentTarget.checked })}
        />
        <Badge tone={state === 'up' ? 'live' : state === 'down' ? 'off' : 'warn'}>{t(`states.${state}`)}</Badge>
        <Select
          className={classes.zone}
          aria-label={t('adopt.zoneOf', { name: link.name })}
          data={zones}
          value={network.role}
          onChange={(value) => value && onChange({ network: withZone(network, value) })}
          allowDeselect={false}
          disabled={!take}
          comboboxProps={{ shadow: 'md' }}
        />
      </div>
      {take && <NetworkChoice choice={choice} onChange={onChange} />}
    </fieldset>
  )
}

function NetworkChoice({ choice: { link, network }, onChange }: LinkChoiceProps) {
  const { t } = useTranslation('network')
  const set = (part: Partial<Choice['network']>) => onChange({ network: { ...network, ...part } })
  const outside = network.role === 'wan'
  const kept = link.addresses.filter(({ dynamic }) => dynamic).map(({ address, prefix }) => `${address}/${prefix}`)
  const text = (name: 'gateway' | 'range_start' | 'range_end') => (
    <TextInput
      label={t(`adopt.${name}.label`)}
      description={name === 'gateway' ? t('adopt.gateway.help') : undefined}
      value={network[name]}
      onChange={(event) => set({ [name]: event.currentTarget.value.trim() })}
      classNames={{ input: 'mono' }}
    />
  )
  return (
    <div className={classes.addresses}>
      <TagsInput
        label={t('adopt.addresses.label', { name: link.name })}
        description={
          kept.length > 0
            ? t('adopt.addresses.leased', { addresses: kept.join(', ') })
            : t(outside ? 'adopt.addresses.outside' : 'adopt.addresses.inside')
        }
        value={network.addresses}
        onChange={(addresses) => onChange({ network: withAddresses(network, addresses) })}
        classNames={{ pill: 'mono' }}
        splitChars={[',', ' ', ';']}
        acceptValueOnBlur
      />
      {outside && network.addresses.length > 0 && text('gateway')}
      {!outside &&
        services.map((name) => (
          <Fragment key={name}>
            <Checkbox
              label={t(`adopt.${name}.label`)}
              description={t(`adopt.${name}.help`)}
              checked={network[name]}
              disabled={name !== 'internet' && network.addresses.length === 0}
              onChange={(event) => set({ [name]: event.currentTarget.checked })}
            />
            {name === 'dhcp' && network.dhcp && (
              <div className={classes.range}>
                {text('range_start')}
                {text('range_end')}
              </div>
            )}
          </Fragment>
        ))}
    </div>
  )
}
