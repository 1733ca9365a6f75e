import { Checkbox, Select } from '@mantine/core'
import { useTranslation } from 'react-i18next'
import { Badge } from '../../kit/StateBadge'
import classes from './Adopt.module.css'
import { addressText, type Choice, offersStarter, type Starter } from './adoption'
import { useZoneNames } from './useLinks'

interface AdoptChoicesProps {
  choices: Choice[]
  onChoices: (choices: Choice[]) => void
  starter: Starter
  onStarter: (starter: Starter) => void
}

/** Which links, into which zones, with which of their addresses, and what may pass at first. */
export function AdoptChoices({ choices, onChoices, starter, onStarter }: AdoptChoicesProps) {
  const { t } = useTranslation('network')
  const change = (name: string, part: Partial<Choice>) =>
    onChoices(choices.map((one) => (one.link.name === name ? { ...one, ...part } : one)))
  return (
    <>
      {choices.map((choice) => (
        <LinkChoice key={choice.link.name} choice={choice} onChange={(part) => change(choice.link.name, part)} />
      ))}
      {offersStarter(choices) && (
        <fieldset className={classes.starter}>
          <legend>{t('adopt.starter')}</legend>
          {(['reach', 'masquerade'] as const).map((name) => (
            <Checkbox
              key={name}
              label={t(`adopt.${name}.label`)}
              description={t(`adopt.${name}.help`)}
              checked={starter[name]}
              onChange={(event) => onStarter({ ...starter, [name]: event.currentTarget.checked })}
            />
          ))}
        </fieldset>
      )}
    </>
  )
}

function LinkChoice({ choice, onChange }: { choice: Choice; onChange: (part: Partial<Choice>) => void }) {
  const { t } = useTranslation('network')
  const zones = useZoneNames()
  const { link, take, zone, addresses } = choice
  const state = !link.up ? 'down' : link.carrier ? 'up' : 'no-carrier'
  const toggle = (text: string, on: boolean) =>
    onChange({ addresses: on ? [...addresses, text] : addresses.filter((one) => one !== text) })
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
          value={zone}
          onChange={(value) => value && onChange({ zone: value })}
          allowDeselect={false}
          disabled={!take}
          comboboxProps={{ shadow: 'md' }}
        />
      </div>
      {take && link.addresses.length > 0 && (
        <div className={classes.addresses}>
          {link.addresses.map((address) => {
            const text = addressText(address)
            return (
              <Checkbox
                key={text}
                size="xs"
                label={<span className="mono">{text}</span>}
                description={address.dynamic ? t('adopt.dynamic') : undefined}
                checked={addresses.includes(text)}
                onChange={(event) => toggle(text, event.currentTarget.checked)}
              />
            )
          })}
        </div>
      )}
    </fieldset>
  )
}
